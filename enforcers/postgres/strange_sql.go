package postgres

// strangeCTE are functions that run when somebody works with a table of a
// project's, with the rights of whoever does, and that a stranger could
// replace: strange(rel, what, does). It goes on from edges. He would have these
// rights then, and sees what is written, whatever may be his to do with the
// table itself.
//
// A stranger is who is neither a superuser nor the owner of the table or of its
// schema, nor a member of these. What calls a function is in pg_depend:
// triggers, defaults, generated columns, constraints and indexes, a domain's
// too; views; and others' restrictive policies, which stay, for the permissive
// ones are taken away. Calls lead on through operators, aggregates, functions
// with a body that the server knows, views, and types made of the type. What a
// view calls runs as who asks, so a stranger's view is as his function. The
// commands are bits, as in pg_trigger.tgtype.
//
// What belongs to a type itself runs also where its columns are read, which
// reads tells: its input, output and range functions, casts from and to it
// (cordon's own policies cast the owner column), and what compares its values by
// default. A class of operators is called by the indexes that are made with
// it, and so by keys, whose checks read the table on their other side. A cast
// between types of the server's own, or a member of its families for them, runs
// anywhere. A cast between a type of the stranger's and one of others' is
// called by who uses the stranger's: or anybody could have tables closed.
const strangeCTE = `,
calls(what, owner, classid, objid, reads) AS (
  SELECT format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)), p.proowner, d.classid, d.objid, ` + readsToo + `
  FROM pg_depend d JOIN pg_proc p ON p.oid = d.refobjid JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles o ON o.oid = p.proowner
  WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid >= 16384 AND NOT o.rolsuper
  UNION SELECT format('the view %s', v.oid::regclass), v.relowner, d.classid, d.objid, false
  FROM pg_depend d JOIN pg_class v ON v.oid = d.refobjid AND v.relkind = 'v' JOIN pg_roles o ON o.oid = v.relowner
  WHERE d.refclassid = 'pg_class'::regclass AND d.classid IN (` + asks + `) AND NOT o.rolsuper
  UNION SELECT c.what, c.owner, d.classid, d.objid, c.reads OR ` + readsToo + `
  FROM (SELECT c.what, c.owner, c.reads, x.classid, x.objid FROM calls c, LATERAL (
          SELECT c.classid, c.objid WHERE c.classid IN ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_type'::regclass)
          UNION ALL SELECT 'pg_type'::regclass, contypid FROM pg_constraint WHERE c.classid = 'pg_constraint'::regclass AND oid = c.objid
          UNION ALL SELECT 'pg_type'::regclass, reltype FROM pg_class WHERE c.classid = 'pg_class'::regclass AND oid = c.objid
          UNION ALL SELECT 'pg_class'::regclass, v.oid FROM pg_rewrite w JOIN pg_class v ON v.oid = w.ev_class AND v.relkind = 'v' WHERE c.classid = 'pg_rewrite'::regclass AND w.oid = c.objid
          UNION ALL SELECT 'pg_type'::regclass, its.oid FROM pg_cast k, LATERAL (VALUES (castsource, casttarget), (casttarget, castsource)) t(its, other)
          JOIN pg_type its ON its.oid = t.its JOIN pg_type other ON other.oid = t.other
          WHERE c.classid = 'pg_cast'::regclass AND k.oid = c.objid AND (its.typowner = c.owner OR other.typowner <> c.owner)
          UNION ALL SELECT of.classid, of.objid FROM pg_opclass o, LATERAL (VALUES ('pg_opclass'::regclass, o.oid), ('pg_type'::regclass, CASE WHEN o.opcdefault THEN o.opcintype END)) of(classid, objid)
          WHERE c.classid IN ('pg_amop'::regclass, 'pg_amproc'::regclass) AND o.opcfamily = (
            SELECT amopfamily FROM pg_amop WHERE c.classid = 'pg_amop'::regclass AND oid = c.objid
            UNION ALL SELECT amprocfamily FROM pg_amproc WHERE c.classid = 'pg_amproc'::regclass AND oid = c.objid)
        ) x(classid, objid)) c,
  LATERAL (SELECT d.classid, d.objid, d.refclassid FROM pg_depend d WHERE d.refclassid = c.classid AND d.refobjid = c.objid OFFSET 0) d
  WHERE CASE WHEN c.classid IN ('pg_type'::regclass, 'pg_opclass'::regclass) THEN d.classid IN ('pg_type'::regclass, 'pg_class'::regclass)
             WHEN c.classid = 'pg_class'::regclass THEN d.classid IN (` + asks + `) ELSE true END),
called(what, owner, rel, bits) AS (
  SELECT c.what, c.owner, t.tgrelid, t.tgtype::int FROM calls c JOIN pg_trigger t ON c.classid = 'pg_trigger'::regclass AND t.oid = c.objid
  UNION ALL SELECT c.what, c.owner, a.adrelid, 4 + 16 FROM calls c JOIN pg_attrdef a ON c.classid = 'pg_attrdef'::regclass AND a.oid = c.objid
  UNION ALL SELECT c.what, c.owner, k.conrelid, 4 + 16 FROM calls c JOIN pg_constraint k ON c.classid = 'pg_constraint'::regclass AND k.oid = c.objid
  UNION ALL SELECT c.what, c.owner, coalesce(i.indrelid, c.objid), CASE WHEN c.reads THEN 4 + 8 + 16 + 128 ELSE 4 + 16 END
  FROM calls c LEFT JOIN pg_index i ON i.indexrelid = c.objid WHERE c.classid = 'pg_class'::regclass
  UNION ALL SELECT c.what, c.owner, w.ev_class, 4 + 8 + 16 + 128 FROM calls c JOIN pg_rewrite w ON c.classid = 'pg_rewrite'::regclass AND w.oid = c.objid
  UNION ALL SELECT c.what, c.owner, q.polrelid, 4 + 8 + 16 + 128 FROM calls c JOIN pg_policy q ON c.classid = 'pg_policy'::regclass AND q.oid = c.objid
  WHERE NOT q.polpermissive AND q.polname NOT LIKE 'cordon\_%' AND (0 = ANY (q.polroles) OR q.polroles && ARRAY(
    SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND description LIKE 'cordon:postgres.role.%'))
  UNION ALL SELECT c.what, c.owner, r.oid, 4 + 8 + 16 + 128
  FROM calls c, LATERAL (SELECT r.oid FROM pg_class r WHERE r.relnamespace IN (TABLE marked) OFFSET 0) r
  WHERE c.classid = 'pg_cast'::regclass AND EXISTS (SELECT FROM pg_cast k WHERE k.oid = c.objid AND castsource < 16384 AND casttarget < 16384)
     OR c.classid = 'pg_amop'::regclass AND EXISTS (SELECT FROM pg_amop k WHERE k.oid = c.objid AND amopfamily < 16384 AND amoplefttype < 16384 AND amoprighttype < 16384)
     OR c.classid = 'pg_amproc'::regclass AND EXISTS (SELECT FROM pg_amproc k WHERE k.oid = c.objid AND amprocfamily < 16384 AND amproclefttype < 16384 AND amprocrighttype < 16384)),
strange(rel, what, does) AS (
  SELECT r.oid, c.what, x.does
  FROM called c JOIN pg_class r ON r.oid = c.rel AND r.relowner <> c.owner JOIN pg_namespace n ON n.oid = r.relnamespace
  JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE'), (128, 'SELECT')) x(bit, does) ON c.bits & x.bit <> 0
  WHERE (r.relnamespace IN (TABLE marked)) IS TRUE AND n.nspowner <> c.owner
    AND NOT pg_has_role(c.owner, r.relowner, 'MEMBER') AND NOT pg_has_role(c.owner, n.nspowner, 'MEMBER')
  UNION SELECT e.dst, s.what, coalesce(e.does, s.does) FROM strange s JOIN (
    SELECT src, dst, does, NULL AS whose FROM edges
    UNION ALL SELECT confrelid, conrelid, unnest('{INSERT,UPDATE}'::text[]), 'SELECT' FROM pg_constraint WHERE contype = 'f'
    UNION ALL SELECT conrelid, confrelid, unnest('{DELETE,UPDATE}'::text[]), 'SELECT' FROM pg_constraint WHERE contype = 'f') e
  ON e.src = s.rel AND (e.whose IS NULL OR e.whose = s.does))`

// readsToo tells of what calls a function whether it does so for columns that
// are only read. A domain calls one for its default.
const readsToo = `(d.classid IN ('pg_cast'::regclass, 'pg_amop'::regclass, 'pg_amproc'::regclass)
    OR d.classid = 'pg_type'::regclass AND d.refclassid <> 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t WHERE t.oid = d.objid AND t.typtype <> 'd'))`

// asks are the kinds of what asks a view.
const asks = `'pg_rewrite'::regclass, 'pg_policy'::regclass, 'pg_proc'::regclass`
