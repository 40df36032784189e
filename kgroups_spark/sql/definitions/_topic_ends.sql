-- The ends of topics that the newest audit of a live cluster saw.

SELECT * FROM main.topic_offsets WHERE audit_id = (SELECT max(audit_id) FROM main.topic_offsets)
