package postgres

// powerCTE are the schemas of projects, marked: those that bear a mark, or whose
// roles do, and those that are declared (see [Enforcer.declare]); and the roles that reach rows of them by themselves, power: what
// runs with their rights may do so too. A role that may create roles makes
// itself a member of others (up to version 15), one that runs programs or
// writes files becomes the server, one that replicates reads what is written.
// Who takes part in power is asked only where there is somebody to ask for.
const powerCTE = `
WITH RECURSIVE marked AS MATERIALIZED (
  SELECT objoid FROM pg_description WHERE classoid = 'pg_namespace'::regclass AND objsubid = 0 AND description LIKE 'cordon:postgres.schema.%'
  UNION SELECT n.oid FROM pg_roles r JOIN pg_shdescription d ON d.classoid = 'pg_authid'::regclass AND d.objoid = r.oid JOIN pg_namespace n ON r.rolname = n.nspname || '_service'
        WHERE d.description LIKE 'cordon:postgres.role.%' AND right(d.description, length(' in database ' || current_database())) = ' in database ' || current_database()
  UNION SELECT oid FROM pg_namespace WHERE nspname = ANY (nullif(current_setting('` + declaredSchemas + `', true), '')::text[])),
member(roleid, member) AS (
  SELECT roleid, member FROM pg_auth_members
  UNION ALL SELECT r.oid, d.datdba FROM pg_roles r, pg_database d WHERE r.rolname = 'pg_database_owner' AND d.datname = current_database()),
power(oid) AS (
  SELECT oid FROM pg_roles WHERE rolsuper OR rolbypassrls OR rolcreaterole OR rolreplication OR rolname IN
    ('pg_read_all_data', 'pg_write_all_data', 'pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')
  UNION SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND description LIKE 'cordon:postgres.role.%'
  UNION SELECT nspowner FROM pg_namespace WHERE oid IN (TABLE marked)
  UNION SELECT d.refobjid FROM pg_shdepend d JOIN pg_class c ON c.oid = d.objid
        WHERE d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND d.classid = 'pg_class'::regclass
          AND d.refclassid = 'pg_authid'::regclass AND d.deptype IN ('o', 'a') AND (c.relnamespace IN (TABLE marked)) IS TRUE
  UNION SELECT m.member FROM power p JOIN member m ON m.roleid = p.oid)`

// pathsCTE are the ways to the rows of projects that no privilege on their own
// relations tells of: paths(base, home, rel, does) says that who may do "does"
// with rel reaches base, which lies in the schema home, with rights that need
// not be his.
//
// The rights that a view or rule uses are its owner's, see
// https://www.postgresql.org/docs/current/rules-privileges.html; parts of a
// table are reached by the table's privileges and policies alone, see
// https://www.postgresql.org/docs/current/ddl-inherit.html; the actions of
// foreign keys run as the owner of the referencing table and past policies; a
// trigger's function is not asked who may execute it.
//
// A partition's copy of a trigger of the whole table's rows is called internal
// before 15.
//
// IS TRUE and OFFSET 0 keep the server from joining what it has no statistics
// of: the one makes it look up a hash, the other an index.
const pathsCTE = powerCTE + `,
edges(src, dst, does) AS MATERIALIZED (
  SELECT d.refobjid, w.ev_class, (ARRAY[NULL, 'UPDATE', 'INSERT', 'DELETE'])[w.ev_type::text::int]
  FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class
  JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid <> w.ev_class
  WHERE w.ev_type <> '1' OR c.reloptions IS NULL
     OR NOT coalesce((SELECT option_value::bool FROM pg_options_to_table(c.reloptions) WHERE option_name = 'security_invoker'), false)
  UNION SELECT inhrelid, inhparent, NULL FROM pg_inherits
  UNION SELECT conrelid, confrelid, 'DELETE' FROM pg_constraint WHERE contype = 'f' AND confdeltype IN ('c', 'n', 'd')
  UNION SELECT conrelid, confrelid, 'UPDATE' FROM pg_constraint WHERE contype = 'f' AND confupdtype IN ('c', 'n', 'd')),
below(base, oid) AS (
  SELECT i.inhparent, i.inhrelid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE (c.relnamespace IN (TABLE marked)) IS TRUE
  UNION SELECT b.base, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.oid),
anything(does) AS (SELECT unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,TRIGGER}'::text[])),
seeds(base, home, rel, does) AS (
  SELECT c.oid::regclass::text, c.relnamespace, e.dst, a.does
  FROM edges e JOIN pg_class c ON c.oid = e.src JOIN anything a ON e.does IS NULL OR a.does = e.does WHERE e.src >= 16384 AND (c.relnamespace IN (TABLE marked)) IS TRUE
  UNION ALL SELECT c.oid::regclass::text, c.relnamespace, b.oid, a.does
  FROM below b JOIN pg_class c ON c.oid = b.base, anything a
  UNION ALL SELECT format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)), 0, t.tgrelid, x.does
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles o ON o.oid = p.proowner
  JOIN (VALUES (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE'), (32, 'TRUNCATE')) x(bit, does) ON t.tgtype & x.bit <> 0
  WHERE (NOT t.tgisinternal OR t.tgparentid <> 0) AND p.prosecdef AND NOT (o.rolsuper AND EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e'))
    AND (o.rolsuper OR o.rolbypassrls OR p.pronamespace <> c.relnamespace AND p.proowner IN (TABLE power))
  UNION ALL SELECT format('what the foreign server %I has', s.srvname), 0, f.ftrelid, a.does
  FROM pg_foreign_table f JOIN pg_class c ON c.oid = f.ftrelid JOIN pg_foreign_server s ON s.oid = f.ftserver, anything a WHERE c.relnamespace NOT IN (TABLE marked)
  UNION ALL SELECT 'what the server keeps for itself', 0, c.oid, x.privilege_type || ' ()'
  FROM pg_class c LEFT JOIN pg_init_privs i ON i.classoid = 'pg_class'::regclass AND i.objoid = c.oid AND i.objsubid = 0, aclexplode(c.relacl) x
  WHERE c.relnamespace = 'pg_catalog'::regnamespace AND c.oid < 16384 AND x.grantee = 0 AND NOT EXISTS (SELECT FROM aclexplode(i.initprivs) y WHERE y.grantee = 0 AND y.privilege_type = x.privilege_type)
  UNION ALL SELECT 'what the server keeps for itself', 0, c.attrelid, format('%s (%s)', x.privilege_type, c.attname)
  FROM pg_class r, LATERAL (SELECT attrelid, attnum, attname, attacl FROM pg_attribute WHERE attrelid = r.oid AND attacl IS NOT NULL OFFSET 0) c
  LEFT JOIN pg_init_privs i ON i.classoid = 'pg_class'::regclass AND i.objoid = c.attrelid AND i.objsubid = c.attnum, aclexplode(c.attacl) x
  WHERE r.relnamespace = 'pg_catalog'::regnamespace AND r.oid < 16384 AND x.grantee = 0 AND NOT EXISTS (SELECT FROM aclexplode(i.initprivs) y WHERE y.grantee = 0 AND y.privilege_type = x.privilege_type)),
paths(base, home, rel, does) AS (
  SELECT base, home, rel, does FROM seeds
  UNION SELECT p.base, p.home, e.dst, coalesce(e.does, p.does) FROM paths p JOIN edges e ON e.src = p.rel)`

// exposedRelationsSQL are the paths from outside the projects' schemas, and what
// is told there of their rows: a foreign key that refuses tells that the row on
// its other side is there, or is not.
const exposedRelationsSQL = pathsCTE + `,
told(base, rel, does) AS (
  SELECT CASE WHEN its THEN confrelid ELSE conrelid END::regclass::text, CASE WHEN its THEN conrelid ELSE confrelid END,
         unnest(CASE WHEN its THEN '{INSERT,UPDATE}' ELSE '{DELETE,UPDATE}' END::text[])
  FROM (SELECT *, refnamespace IN (TABLE marked) AS its FROM (
    SELECT conrelid, confrelid, connamespace, (SELECT relnamespace FROM pg_class WHERE oid = confrelid) AS refnamespace FROM pg_constraint WHERE contype = 'f' OFFSET 0) k OFFSET 0) k
  WHERE its = (connamespace NOT IN (TABLE marked))
  UNION SELECT t.base, e.dst, t.does FROM told t JOIN edges e ON e.src = t.rel AND e.does IS NULL)
SELECT n.nspname, c.relname, format('%I.%I', n.nspname, c.relname), c.relkind::text, pg_get_userbyid(c.relowner), p.base, p.does
FROM (SELECT base, rel, does FROM paths UNION TABLE told) p JOIN pg_class c ON c.oid = p.rel JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relnamespace NOT IN (TABLE marked) AND c.relpersistence <> 't'
ORDER BY 3, 6, 7`

// unsafeSQL are the paths from the relations of the declared schemas, $1, to
// what is not of the same schema, what rules on them do (only INSTEAD NOTHING
// takes away and gives nothing), and what a stranger could have them run.
const unsafeSQL = pathsCTE + strangeCTE + `
SELECT DISTINCT c.nspname, c.relname, p.base, p.does
FROM (SELECT base, home, rel, does FROM paths
      UNION ALL SELECT what, 0, rel, does FROM strange
      UNION ALL SELECT format('what the rule %I on it does', rulename), 0, ev_class, (ARRAY['UPDATE', 'INSERT', 'DELETE'])[ev_type::text::int - 1]
      FROM pg_rewrite WHERE ev_type <> '1' AND ev_action::text <> '<>') p,
LATERAL (SELECT n.nspname, c.relname, c.relnamespace FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = p.rel OFFSET 0) c
WHERE c.nspname = ANY ($1) AND p.home <> c.relnamespace
ORDER BY 1, 2, 3, 4`

// exposedOthersSQL is what else reaches rows of projects, or makes somebody of
// those who are nobody. It is asked with the settings that do, $1.
//
//   - functions: SECURITY DEFINER ones of a role of power, by themselves or
//     inside an aggregate, whose users need no right to execute them (only its
//     owner does). What a body in a string does nobody knows. LEAKPROOF ones
//     are given rows that a policy would then hide. Those that the server or an
//     extension kept from PUBLIC, see pg_init_privs.
//     Those of the server's own that somebody made leakproof, or replaced: their
//     rows are younger than what initdb made last. One that an extension has is
//     left alone if a superuser owns it: others could mark their own by hand.
//   - servers that PUBLIC may use as somebody, see pg_user_mapping.
//   - languages that only a superuser should write in, marked as trusted.
//   - event triggers whose function a role may replace that could not have made
//     them: it runs as whoever changes something, cordon too.
//   - parameters that PUBLIC may set though they are a superuser's.
//   - settings of all sessions of the database, the cluster or the server, of
//     which cordon's own session tells (see forgetSQL).
//
// "named" tells that a function can be had without naming it, and so without
// its schema: a cast, an operator, a default calls it.
func exposedOthersSQL(version int) string {
	sql := powerCTE + `,
made AS (SELECT min(xmin::text::bigint) FROM pg_class
         WHERE oid BETWEEN 12000 AND 16383 AND relnamespace = 'information_schema'::regnamespace AND relkind = 'v'),
suspects AS (
  SELECT p.oid, p.pronamespace, p.proowner, p.proacl, p.proname, p.proargtypes, CASE
    WHEN p.prosecdef AND NOT x.extension AND (o.rolsuper OR p.proowner IN (TABLE power)) THEN 'its owner'
    WHEN p.proleakproof AND NOT x.extension AND p.oid >= 16384 THEN 'a leakproof function'
    WHEN p.oid < 16384 AND (p.proleakproof OR p.prolang NOT IN (12, 13)) AND p.xmin::text::bigint > (TABLE made) THEN '` + changedByHand + `'
    WHEN p.prokind = 'a' AND NOT x.extension AND p.oid >= 16384 AND EXISTS (SELECT FROM pg_aggregate g JOIN pg_proc q
      ON q.oid IN (g.aggtransfn, g.aggfinalfn, g.aggcombinefn, g.aggserialfn, g.aggdeserialfn, g.aggmtransfn, g.aggminvtransfn, g.aggmfinalfn)
      WHERE g.aggfnoid = p.oid AND q.prosecdef AND q.proowner IN (TABLE power)) THEN 'a function inside'
    WHEN i.initprivs IS NOT NULL AND NOT EXISTS (SELECT FROM aclexplode(i.initprivs) y WHERE y.grantee = 0) THEN 'the server'
    END AS rights
  FROM pg_proc p JOIN pg_roles o ON o.oid = p.proowner
  LEFT JOIN pg_init_privs i ON i.classoid = 'pg_proc'::regclass AND i.objoid = p.oid AND (p.proacl IS NULL OR i.initprivs <> p.proacl),
  LATERAL (SELECT o.rolsuper AND EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e') AS extension) x
  WHERE (p.prosecdef OR p.proleakproof OR p.prokind = 'a' OR i.initprivs IS NOT NULL OR p.oid < 16384 AND p.prolang NOT IN (12, 13)) AND p.pronamespace NOT IN (TABLE marked))
SELECT CASE s.rights WHEN '` + changedByHand + `' THEN '` + builtin + `' ELSE 'function' END, n.nspname, format('%I.%I(%s)', n.nspname, s.proname, oidvectortypes(s.proargtypes)),
       format('ROUTINE %I.%I(%s)', n.nspname, s.proname, oidvectortypes(s.proargtypes)), pg_get_userbyid(s.proowner)::text,
       coalesce(s.proacl, acldefault('f', s.proowner))::text[], s.rights,
       EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = s.oid AND d.classid <> 'pg_trigger'::regclass)
FROM suspects s JOIN pg_namespace n ON n.oid = s.pronamespace
WHERE s.rights IS NOT NULL AND n.nspname !~ '^pg_temp'
UNION ALL
SELECT 'foreign server', '', 'server ' || quote_ident(s.srvname), 'FOREIGN SERVER ' || quote_ident(s.srvname), pg_get_userbyid(s.srvowner)::text, s.srvacl::text[],
       'its user mapping', true
FROM pg_foreign_server s
WHERE s.srvacl IS NOT NULL AND EXISTS (SELECT FROM pg_user_mappings m WHERE m.srvid = s.oid
  AND m.umuser IN (SELECT 0 UNION ALL SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND (description LIKE 'cordon:postgres.role.%' OR description LIKE 'cordon:postgres.login.%')))
UNION ALL
SELECT 'language', '', 'language ' || quote_ident(lanname), 'LANGUAGE ' || quote_ident(lanname), pg_get_userbyid(lanowner)::text, coalesce(lanacl, acldefault('l', lanowner))::text[],
       'the user that the server runs as', true
FROM pg_language WHERE lanpltrusted AND (oid IN (12, 13) OR lanname ~ '^pl.*u$' OR lanname IN ('plr', 'plsh'))
UNION ALL
SELECT '` + eventTrigger + `', '', 'event trigger ' || quote_ident(e.evtname), '', pg_get_userbyid(p.proowner)::text, NULL, 'whoever changes something', true
FROM pg_event_trigger e JOIN pg_proc p ON p.oid = e.evtfoid
WHERE e.evtenabled <> 'D' AND NOT p.prosecdef AND p.proowner <> e.evtowner AND NOT pg_has_role(p.proowner, e.evtowner, 'MEMBER')
UNION ALL
SELECT 'setting', '', 'setting ' || split_part(c, '=', 1), CASE d.setdatabase WHEN 0 THEN '' ELSE 'here' END, '', NULL, 'whoever connects', true
FROM pg_db_role_setting d, unnest(d.setconfig) c
WHERE d.setrole = 0 AND d.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND (lower(split_part(c, '=', 1)) = ANY ($1) OR c ILIKE 'request.%')
UNION ALL
SELECT 'setting', '', 'setting ' || name, '` + byServer + `', '', NULL, 'the server', true FROM (
  SELECT 'request.jwt.claims' AS name WHERE current_setting('request.jwt.claims', true) <> ''
  UNION ALL SELECT name FROM pg_settings WHERE name = ANY ($1) AND source IN ('configuration file', 'command line', 'environment variable') AND setting <> boot_val
    AND (current_setting('row_security'), current_setting('session_replication_role'), current_setting('lo_compat_privileges'), coalesce(current_setting('event_triggers', true), 'on')) <> ('on', 'origin', 'off', 'on')) s`
	if version >= parametersFrom {
		sql += `
UNION ALL
SELECT 'parameter', '', 'parameter ' || parname, 'PARAMETER ' || parname, ` + parameterOwner + `, paracl::text[], 'a superuser', true FROM pg_parameter_acl`
	}
	return sql + "\nORDER BY 3, 4"
}

// parametersFrom is the version whose parameters have privileges.
const parametersFrom = 150000

// parameterOwner is the role that initdb made, who grants on parameters
// (BOOTSTRAP_SUPERUSERID in the server's pg_authid.dat).
const parameterOwner = `(SELECT rolname::text FROM pg_roles WHERE oid = 10)`
