-- 31 times what is there plus the next UTF-16 unit, in 32 bits: a character beyond 16 bits is two surrogates.
CREATE OR REPLACE MACRO java_hash(text) AS CAST((
  list_reduce(
    [CAST(0 AS BIGINT)] || flatten(list_transform(
      string_split(text, ''),
      lambda letter: CASE
        WHEN letter = '' THEN CAST([] AS BIGINT[])
        WHEN unicode(letter) < 65536 THEN [CAST(unicode(letter) AS BIGINT)]
        ELSE [
          CAST(55296 + (unicode(letter) - 65536) // 1024 AS BIGINT),
          CAST(56320 + (unicode(letter) - 65536) % 1024 AS BIGINT)
        ]
      END
    )),
    lambda hash, unit: (31 * hash + unit) % 4294967296
  )
  -- Java's int is signed.
  + 2147483648
) % 4294967296 - 2147483648 AS INTEGER);

COMMENT ON MACRO java_hash IS 'What Java''s String.hashCode says of the text';
