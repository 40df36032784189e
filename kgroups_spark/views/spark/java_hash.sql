CREATE OR REPLACE TEMPORARY FUNCTION java_hash(
  text STRING COMMENT 'Any text'
)
RETURNS INT
COMMENT 'What Java''s String.hashCode says of the text'
RETURN
-- 31 times what is there plus the next UTF-16 unit, in 32 bits: a character beyond 16 bits is two surrogates.
CAST((
  aggregate(
    -- A place in the bytes for each unit; none of an empty text.
    filter(sequence(1, length(encode(text, 'UTF-16BE')) + 1, 2), place -> place < length(encode(text, 'UTF-16BE'))),
    CAST(0 AS BIGINT),
    (hash, place) -> (31 * hash + CAST(conv(hex(substring(encode(text, 'UTF-16BE'), place, 2)), 16, 10) AS BIGINT))
      % 4294967296
  )
  -- Java's int is signed.
  + 2147483648
) % 4294967296 - 2147483648 AS INT)
