package postgres

// strangeCTE are functions that run when somebody works with a table of a
// project's, with the rights of whoever does, and that a stranger could
// replace: strange(rel, proc, does). It goes on from edges. He would have these rights then, and sees
// what is written, whatever may be his to do with the table itself.
//
// A stranger is who is neither a superuser nor the owner of the table or of its
// schema, nor a member of these. What calls a function is in pg_depend:
// triggers, defaults, generated columns, constraints and indexes, a domain's
// too; views; and others' restrictive policies, which stay, for the permissive
// ones are taken away. Calls lead on through operators, aggregates, functions
// with a body that the server knows, and types made of the domain. The commands
// are bits, as in pg_trigger.tgtype.
const strangeCTE = `,
calls(proc, owner, classid, objid) AS (
  SELECT d.refobjid, p.proowner, d.classid, d.objid
  FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid JOIN pg_roles o ON o.oid = p.proowner
  WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid >= 16384 AND NOT o.rolsuper
  UNION SELECT c.proc, c.owner, d.classid, d.objid
  FROM (SELECT proc, owner, CASE WHEN classid = 'pg_constraint'::regclass THEN 'pg_type'::regclass ELSE classid END AS classid,
               CASE WHEN classid = 'pg_constraint'::regclass THEN (SELECT contypid FROM pg_constraint WHERE oid = objid) ELSE objid END AS objid
        FROM calls WHERE classid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass, 'pg_constraint'::regclass)) c
  JOIN pg_depend d ON d.refclassid = c.classid AND d.refobjid = c.objid
  WHERE c.classid <> 'pg_type'::regclass OR d.classid IN ('pg_type'::regclass, 'pg_class'::regclass)),
called(proc, owner, rel, bits) AS (
  SELECT c.proc, c.owner, t.tgrelid, t.tgtype::int FROM calls c JOIN pg_trigger t ON c.classid = 'pg_trigger'::regclass AND t.oid = c.objid
  UNION ALL SELECT c.proc, c.owner, a.adrelid, 4 + 16 FROM calls c JOIN pg_attrdef a ON c.classid = 'pg_attrdef'::regclass AND a.oid = c.objid
  UNION ALL SELECT c.proc, c.owner, k.conrelid, 4 + 16 FROM calls c JOIN pg_constraint k ON c.classid = 'pg_constraint'::regclass AND k.oid = c.objid
  UNION ALL SELECT c.proc, c.owner, coalesce(i.indrelid, c.objid), 4 + 16 FROM calls c LEFT JOIN pg_index i ON i.indexrelid = c.objid WHERE c.classid = 'pg_class'::regclass
  UNION ALL SELECT c.proc, c.owner, w.ev_class, 4 + 8 + 16 + 128 FROM calls c JOIN pg_rewrite w ON c.classid = 'pg_rewrite'::regclass AND w.oid = c.objid
  UNION ALL SELECT c.proc, c.owner, q.polrelid, 4 + 8 + 16 + 128 FROM calls c JOIN pg_policy q ON c.classid = 'pg_policy'::regclass AND q.oid = c.objid
  WHERE NOT q.polpermissive AND q.polname NOT LIKE 'cordon\_%' AND (0 = ANY (q.polroles) OR q.polroles && ARRAY(
    SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND description LIKE 'cordon:postgres.role.%'))),
strange(rel, proc, does) AS (
  SELECT r.oid, c.proc, x.does
  FROM called c JOIN pg_class r ON r.oid = c.rel AND r.relowner <> c.owner JOIN pg_namespace n ON n.oid = r.relnamespace
  JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE'), (128, 'SELECT')) x(bit, does) ON c.bits & x.bit <> 0
  WHERE (r.relnamespace IN (TABLE marked)) IS TRUE AND n.nspowner <> c.owner
    AND NOT pg_has_role(c.owner, r.relowner, 'MEMBER') AND NOT pg_has_role(c.owner, n.nspowner, 'MEMBER')
  UNION SELECT e.dst, s.proc, coalesce(e.does, s.does) FROM strange s JOIN edges e ON e.src = s.rel)`
