-- Audit 2 looked for findings, audit 3 was maintenance; audit 1 had found something that is over.
INSERT INTO audits (audit_id, status, started_at, rows_added) VALUES
  (1, 'finished', h(1), MAP {'findings': 1}), (2, 'finished', h(2), MAP {'findings': 2}), (3, 'finished', h(3), MAP {'groups': 1});
INSERT INTO findings (audit_id, finding, severity, group_id, detail) VALUES
  (1, 'ghost_member', 'warning', 'g', 'over'), (2, 'offset_rewound', 'warning', 'g', 'd'), (2, 'offset_rewound', 'warning', 'h', 'd');

SELECT audit_id, finding, group_id FROM current_findings;
VALUES (2, 'offset_rewound', 'g'), (2, 'offset_rewound', 'h');
