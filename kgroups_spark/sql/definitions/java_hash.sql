-- The hash code of the text, as from Java's String.hashCode
--
-- argument text STRING: Any text
-- returns INT

-- 31 times the hash so far plus the next UTF-16 unit, in 32 bits: a character beyond 16 bits is two surrogates.
CAST((
  list_reduce(
    flatten(list_transform(
      regexp_extract_all(text, '(?s).', 0),
      lambda letter: CASE
        WHEN unicode(letter) < 65536 THEN [CAST(unicode(letter) AS BIGINT)]
        ELSE [
          CAST(55296 + (unicode(letter) - 65536) // 1024 AS BIGINT),
          CAST(56320 + (unicode(letter) - 65536) % 1024 AS BIGINT)
        ]
      END
    )),
    lambda hash, unit: (31 * hash + unit) % 4294967296,
    CAST(0 AS BIGINT)
  )
  -- Java's int is signed.
  + 2147483648
) % 4294967296 - 2147483648 AS INTEGER)
