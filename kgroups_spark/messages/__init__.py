"""Record columns -> decoded columns and values: message definitions, and the readers of them."""
