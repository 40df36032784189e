-- The facts of the newest audit that asked a cluster.

SELECT * FROM main.cluster_facts WHERE audit_id = (SELECT max(audit_id) FROM main.cluster_facts)
