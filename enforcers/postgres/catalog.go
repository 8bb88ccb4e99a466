package postgres

// What is read of the catalogs, each in one query whatever the number of
// objects. Names of catalogs and functions resolve in pg_catalog, the only
// schema on the search_path of cordon's connections, which is also what
// pg_get_expr writes names for.

// Schemas that bear a mark, or that someone has privileges on by name.
// Temporary schemas live no longer than a session.
const schemasSQL = `
SELECT n.nspname, pg_get_userbyid(n.nspowner), n.nspacl::text[], coalesce(d.description, ''), coalesce(o.rolsuper, false)
FROM pg_namespace n
LEFT JOIN pg_roles o ON o.oid = n.nspowner
LEFT JOIN pg_description d ON d.objoid = n.oid AND d.classoid = 'pg_namespace'::regclass AND d.objsubid = 0
WHERE n.nspname !~ '^pg_(temp|toast)'`

// relacl NULL means acldefault(), which for relations, columns and schemas
// gives the owner everything and others nothing: no entry of interest.
const relationsSQL = `
SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relrowsecurity, c.relforcerowsecurity,
       pg_get_userbyid(c.relowner), c.relacl::text[], coalesce(d.refobjid, 0)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_depend d ON c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0
                     AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'a'
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND n.nspname !~ '^pg_(temp|toast)' AND `

const relationsAll = `(c.relacl IS NOT NULL OR c.relrowsecurity
  OR c.oid IN (SELECT attrelid FROM pg_attribute WHERE attacl IS NOT NULL)
  OR n.oid IN (SELECT objoid FROM pg_description WHERE classoid = 'pg_namespace'::regclass AND description LIKE 'cordon:%')
  OR c.relowner IN (SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND description LIKE 'cordon:%'))`

const columnsSQL = `SELECT a.attrelid, a.attname, a.attacl::text[] FROM pg_attribute a WHERE a.attacl IS NOT NULL AND NOT a.attisdropped AND `

// Conditions are trees here, see [conditions], with the name of the column that
// the first of them names first.
const policiesSQL = `
SELECT p.polrelid, p.polname, p.polcmd::text, p.polpermissive,
       ARRAY(SELECT CASE WHEN o = 0 THEN '' ELSE pg_get_userbyid(o)::text END FROM unnest(p.polroles) o),
       coalesce(d.description, ''), p.oid, p.polqual::text, p.polwithcheck::text,
       coalesce((SELECT a.attname FROM pg_attribute a WHERE a.attrelid = p.polrelid
         AND a.attnum = nullif(split_part(split_part(coalesce(p.polqual, p.polwithcheck)::text, ':varattno ', 2), ' ', 1), '')::int2), '')
FROM pg_policy p
LEFT JOIN pg_description d ON d.objoid = p.oid AND d.classoid = 'pg_policy'::regclass
WHERE `

// The relations of some schemas, $1.
const relationsOf = `(SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY ($1))`

// Roles that bear a mark, of any installation: all, or some by name ($1).
const rolesSQL = `
SELECT r.rolname, d.description, r.rolcanlogin, r.rolsuper, r.rolcreaterole, r.rolcreatedb, r.rolreplication, r.rolbypassrls, r.rolinherit
FROM pg_roles r JOIN `

const rolesAll = `pg_shdescription d ON d.objoid = r.oid
WHERE d.classoid = 'pg_authid'::regclass AND d.description LIKE 'cordon:postgres.role.%'`

const loginsAll = `pg_shdescription d ON d.objoid = r.oid
WHERE d.classoid = 'pg_authid'::regclass AND d.description LIKE 'cordon:postgres.login.%'`

const rolesNamed = `LATERAL (SELECT shobj_description(r.oid, 'pg_authid') AS description) d ON true
WHERE r.rolname = ANY ($1) AND d.description LIKE 'cordon:postgres.role.%'`

// Who is a member of which role, where one of them bears a mark. Whoever made
// a role is made its member by PostgreSQL 16, so cordon itself is left out.
// The options are NULL before 16.
const membersSQL = `
SELECT o.rolname, m.rolname, pg_get_userbyid(a.grantor), a.admin_option, (to_jsonb(a) ->> 'inherit_option')::bool, (to_jsonb(a) ->> 'set_option')::bool
FROM pg_auth_members a JOIN pg_roles o ON o.oid = a.roleid JOIN pg_roles m ON m.oid = a.member
WHERE m.rolname <> session_user
  AND EXISTS (SELECT FROM pg_shdescription d WHERE d.objoid IN (a.roleid, a.member)
              AND d.classoid = 'pg_authid'::regclass AND d.description LIKE 'cordon:postgres.role.%') AND `

// Memberships that an authenticator is not to have: in PostgreSQL's own roles
// and in those that reach rows of projects, by themselves or through others
// (its memberships in projects' roles are those roles'); and who becomes it.
// Who made it is its member by PostgreSQL 16, with no right to become it.
const loginMembersSQL = powerCTE + `
SELECT o.rolname, m.rolname, pg_get_userbyid(a.grantor), a.admin_option, (to_jsonb(a) ->> 'inherit_option')::bool, (to_jsonb(a) ->> 'set_option')::bool
FROM pg_auth_members a JOIN pg_roles o ON o.oid = a.roleid JOIN pg_roles m ON m.oid = a.member,
LATERAL (SELECT coalesce(shobj_description(o.oid, 'pg_authid'), '') AS role, coalesce(shobj_description(m.oid, 'pg_authid'), '') AS member) mark
WHERE mark.role LIKE 'cordon:postgres.login.%' AND m.rolname <> session_user
        AND NOT (a.admin_option AND coalesce(to_jsonb(a) ->> 'inherit_option' = 'false' AND to_jsonb(a) ->> 'set_option' = 'false', false))
   OR mark.member LIKE 'cordon:postgres.login.%' AND mark.role NOT LIKE 'cordon:postgres.role.%' AND EXISTS (
        WITH RECURSIVE up(oid) AS (SELECT a.roleid UNION SELECT b.roleid FROM up JOIN pg_auth_members b ON b.member = up.oid)
        SELECT FROM up JOIN pg_roles r ON r.oid = up.oid WHERE r.rolname ~ '^pg_' OR r.oid IN (TABLE power))`

const sessionSQL = `SELECT current_database()::text, session_user::text, current_setting('server_version_num')::int`

// Relations of the declared schemas, $1, and sequences, with what they belong
// to. What an extension made is the extension's.
const surveySQL = `
SELECT c.oid, n.nspname, c.relname, c.relkind::text,
       CASE WHEN c.relkind = 'S' THEN '{}' ELSE ARRAY(
         SELECT a.attname::text FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) END,
       coalesce(i.inhparent, d.refobjid, 0),
       CASE WHEN c.relkind <> 'v' OR c.reloptions IS NULL THEN false ELSE coalesce((
         SELECT option_value::bool FROM pg_options_to_table(c.reloptions) WHERE option_name = 'security_invoker'), false) END
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhseqno = 1
LEFT JOIN pg_depend d ON c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0
                     AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'a'
WHERE n.nspname = ANY ($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
  AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_class'::regclass AND e.objid = c.oid AND e.deptype = 'e')`
