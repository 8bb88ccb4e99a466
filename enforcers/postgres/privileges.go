package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// stray is an object of a kind that no resource is about, with privileges of
// marked roles.
type stray struct {
	target, owner string // target as GRANT names it
	acl           []privilege
}

// straysSQL looks where the server notes whose privileges are somewhere.
func straysSQL(version int) string {
	parameters := ""
	if version >= parametersFrom {
		parameters = `
  UNION ALL SELECT 'PARAMETER ' || parname, 10, paracl FROM pg_parameter_acl WHERE ('pg_parameter_acl'::regclass, oid) IN (TABLE held)`
	}
	return straysHead + parameters + `) x
WHERE acl IS NOT NULL
ORDER BY 1`
}

const straysHead = `
WITH held AS MATERIALIZED (
  SELECT d.classid, d.objid FROM pg_shdepend d
  WHERE d.deptype = 'a' AND d.refclassid = 'pg_authid'::regclass AND d.classid NOT IN ('pg_class'::regclass, 'pg_namespace'::regclass, 'pg_proc'::regclass, 'pg_default_acl'::regclass)
    AND d.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    AND d.refobjid IN (SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND (description LIKE 'cordon:postgres.role.%' OR description LIKE 'cordon:postgres.login.%')))
SELECT target, pg_get_userbyid(owner), acl::text[] FROM (
  SELECT 'DATABASE ' || quote_ident(datname) AS target, datdba AS owner, datacl AS acl FROM pg_database WHERE ('pg_database'::regclass, oid) IN (TABLE held)
  UNION ALL SELECT 'TABLESPACE ' || quote_ident(spcname), spcowner, spcacl FROM pg_tablespace WHERE ('pg_tablespace'::regclass, oid) IN (TABLE held)
  UNION ALL SELECT format('TYPE %I.%I', n.nspname, t.typname), t.typowner, t.typacl FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE ('pg_type'::regclass, t.oid) IN (TABLE held)
  UNION ALL SELECT 'LANGUAGE ' || quote_ident(lanname), lanowner, lanacl FROM pg_language WHERE ('pg_language'::regclass, oid) IN (TABLE held)
  UNION ALL SELECT 'FOREIGN DATA WRAPPER ' || quote_ident(fdwname), fdwowner, fdwacl FROM pg_foreign_data_wrapper WHERE ('pg_foreign_data_wrapper'::regclass, oid) IN (TABLE held)
  UNION ALL SELECT 'FOREIGN SERVER ' || quote_ident(srvname), srvowner, srvacl FROM pg_foreign_server WHERE ('pg_foreign_server'::regclass, oid) IN (TABLE held)
  UNION ALL SELECT 'LARGE OBJECT ' || oid, lomowner, lomacl FROM pg_largeobject_metadata WHERE oid IN (SELECT objid FROM held WHERE classid = 'pg_largeobject'::regclass)`

// mappingsSQL is whom marked roles are on other servers.
const mappingsSQL = `
SELECT m.srvname::text, m.usename::text FROM pg_user_mappings m
WHERE m.umuser IN (SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND description LIKE 'cordon:postgres.role.%')
ORDER BY 1, 2`

// settingsSQL is what roles are set to, in this database or everywhere.
const settingsSQL = `
SELECT r.rolname, d.setdatabase <> 0, d.setconfig
FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole
WHERE d.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))`

func (s *state) queueStrays(b *pgx.Batch) {
	b.Queue(mappingsSQL).Query(func(rows pgx.Rows) error {
		var server, role string
		_, err := pgx.ForEachRow(rows, []any{&server, &role}, func() error {
			if r := s.roles[role]; r != nil {
				r.mappings = append(r.mappings, server)
			}
			return nil
		})
		return err
	})
	b.Queue(straysSQL(s.version)).Query(func(rows pgx.Rows) error {
		var x stray
		var acl []string
		_, err := pgx.ForEachRow(rows, []any{&x.target, &x.owner, &acl}, func() error {
			found := x
			var err error
			found.acl, err = parseACL(acl, "")
			s.strays = append(s.strays, found)
			return err
		})
		return err
	})
	b.Queue(settingsSQL).Query(func(rows pgx.Rows) error {
		var role string
		var here bool
		var config []string
		_, err := pgx.ForEachRow(rows, []any{&role, &here, &config}, func() error {
			r := s.roles[role]
			if r == nil {
				r = s.logins[role]
			}
			if r != nil {
				for _, c := range config {
					r.settings = append(r.settings, setting{here, c})
				}
			}
			config = nil
			return nil
		})
		return err
	})
}

// setting is name=value; here: in this database only.
type setting struct {
	here  bool
	value string
}

// name is all that a plan shows of it: the value may be a secret.
func (c setting) name() string {
	name, _, _ := strings.Cut(c.value, "=")
	return name
}

// strayDrift are the privileges of the role on what no resource is about.
func (s *state) strayDrift(role string) []string {
	var out []string
	for _, x := range s.strays {
		for _, p := range s.stray(x, role) {
			out = append(out, fmt.Sprintf("%s on %s", p.label(), x.target))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// stray is what of x the role is not to have. The authenticator, which must
// connect, may have the right to.
func (s *state) stray(x stray, role string) []privilege {
	connects := strings.HasPrefix(x.target, "DATABASE ") && !s.marked(role)
	return slices.DeleteFunc(slices.Clone(x.acl), func(p privilege) bool {
		return p.grantee != role || role == x.owner || connects && (p.name == "CONNECT" || p.name == "TEMPORARY")
	})
}

// dropStrays takes them away.
func (s *state) dropStrays(role string) []statement {
	var out []statement
	for _, x := range s.strays {
		revokes, _ := alterACL(x.target, x.owner, s.stray(x, role), func(string) bool { return true }, nil)
		out = append(out, revokes...)
	}
	return out
}
