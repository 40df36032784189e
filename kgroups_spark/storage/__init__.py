"""Files of this machine and of object stores."""
