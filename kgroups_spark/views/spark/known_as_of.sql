CREATE OR REPLACE TEMPORARY FUNCTION known_as_of(
  ts TIMESTAMP COMMENT 'The moment; null: now, which is complete'
)
RETURNS STRING
COMMENT 'What the history knows of a moment. complete: all there was; incomplete: the log had been compacted before it was read, so that groups, members and offsets may be missing, or older ones may be shown; before, after: the moment lies outside of the history, which says nothing of it'
RETURN CASE
  WHEN ts < (SELECT begins FROM known_history) THEN 'before'
  WHEN ts > (SELECT ends FROM known_history) THEN 'after'
  WHEN ts < (SELECT incomplete_to FROM known_history) THEN 'incomplete'
  ELSE 'complete'
END
