package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Function is who may execute one function, procedure or aggregate.
type Function struct {
	Database  string   `json:"-"`
	Schema    string   `json:"-"`
	Signature string   `json:"-"` // name(types of the input arguments)
	Grants    []Grant  `json:"grants,omitempty"`
	Drift     []string `json:"drift,omitempty"`
}

// Addr is postgres.function.DATABASE.SCHEMA.SIGNATURE.
func (f Function) Addr() reconciler.Addr {
	return reconciler.NewAddr(Name, "function", f.Database, f.Schema, f.Signature)
}

// Needs are the schema and the roles that have grants.
func (f Function) Needs() []reconciler.Addr {
	s := Schema{Database: f.Database, Name: f.Schema}
	needs := append(s.grantees(f.Grants, nil), s.Addr())
	slices.Sort(needs)
	return needs
}

// executors is who may execute a function: admin and service, and who is
// declared. One that runs past policies must be declared for anybody to.
func executors(p specs.Project, f specs.Function) []Grant {
	execute := []string{"execute"}
	roles := map[string][]string{}
	i := slices.IndexFunc(p.Schema.Functions, func(d specs.FunctionAccess) bool { return d.Name == f.Name })
	if f.Past == "" || i >= 0 {
		roles[p.Role(specs.RoleAdmin)], roles[p.Role(specs.RoleService)] = execute, execute
	}
	if i >= 0 && p.Schema.Functions[i].Anonymous {
		roles[p.Role(specs.RoleAnon)] = execute
	}
	if i >= 0 && (p.Schema.Functions[i].Anonymous || p.Schema.Functions[i].Authenticated) {
		roles[p.Role(specs.RoleUser)] = execute
	}
	return grants(roles)
}

func signature(name, arguments string) string { return name + "(" + arguments + ")" }

// functionsOf are the functions of a project's schema.
func functionsOf(p specs.Project, found []specs.Function) []reconciler.Resource {
	var out []reconciler.Resource
	for _, f := range found {
		if f.Database == p.Schema.Database && f.Schema == p.SchemaName() {
			function := Function{Database: f.Database, Schema: f.Schema, Signature: signature(f.Name, f.Arguments), Grants: executors(p, f)}
			if len(function.Grants) > 0 {
				out = append(out, function)
			}
		}
	}
	return out
}

// functionNotes tell of functions that nobody gets, and of those that do for
// whoever gets them more than was meant.
func functionNotes(p specs.Project, found []specs.Function) []reconciler.Note {
	var out []reconciler.Note
	for _, f := range found {
		if f.Database != p.Schema.Database || f.Schema != p.SchemaName() {
			continue
		}
		add := func(text string) {
			addr := Function{Database: f.Database, Schema: f.Schema, Signature: signature(f.Name, f.Arguments)}.Addr()
			out = append(out, reconciler.Note{Addr: addr, Text: text})
		}
		switch {
		case len(executors(p, f)) == 0:
			add(fmt.Sprintf("nobody may execute it: it runs with the rights of %s, past policies; if it is meant to be used, say so by a function block", f.Past))
		case f.Unpinned:
			add(fmt.Sprintf("it runs with the rights of %s, and whoever executes it decides by search_path which tables its names mean, another project's too: ALTER ROUTINE … SET search_path", f.Past))
		}
	}
	return out
}

// liveFunction is a function as the catalogs have it.
type liveFunction struct {
	schema, name, arguments, owner string
	acl                            []privilege
	extension, definer             bool // extension: its, and a superuser's, as what others own they could mark by hand
}

// proacl NULL means acldefault(), which gives PUBLIC EXECUTE.
const functionsSQL = `
SELECT n.nspname, p.proname, oidvectortypes(p.proargtypes), pg_get_userbyid(p.proowner),
       coalesce(p.proacl, acldefault('f', p.proowner))::text[], p.prosecdef,
       EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e') AND EXISTS (SELECT FROM pg_roles o WHERE o.oid = p.proowner AND o.rolsuper)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname !~ '^pg_temp' AND `

const functionsAll = `(p.proacl IS NOT NULL
  OR n.oid IN (SELECT objoid FROM pg_description WHERE classoid = 'pg_namespace'::regclass AND description LIKE 'cordon:%')
  OR p.proowner IN (SELECT objoid FROM pg_shdescription WHERE classoid = 'pg_authid'::regclass AND description LIKE 'cordon:%'))`

const functionsIn = `n.nspname = ANY ($1)`

const surveyFunctionsSQL = `
SELECT n.nspname, p.proname, oidvectortypes(p.proargtypes),
       CASE WHEN p.proleakproof OR p.prosecdef AND (o.rolsuper OR o.rolbypassrls) THEN o.rolname::text ELSE '' END,
       p.prosecdef AND (o.rolsuper OR o.rolbypassrls) AND p.prolang NOT IN (12, 13) AND to_jsonb(p) ->> 'prosqlbody' IS NULL
         AND NOT coalesce(p.proconfig::text ILIKE '%search_path=%', false)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace JOIN pg_roles o ON o.oid = p.proowner
WHERE n.nspname = ANY ($1) AND NOT (o.rolsuper AND EXISTS (SELECT FROM pg_depend e WHERE e.classid = 'pg_proc'::regclass AND e.objid = p.oid AND e.deptype = 'e'))
ORDER BY n.nspname COLLATE "C", p.proname COLLATE "C", oidvectortypes(p.proargtypes) COLLATE "C"`

func scanFunctions(rows pgx.Rows, database string) ([]specs.Function, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (specs.Function, error) {
		f := specs.Function{Database: database}
		return f, row.Scan(&f.Schema, &f.Name, &f.Arguments, &f.Past, &f.Unpinned)
	})
}

func (s *state) queueFunctions(b *pgx.Batch, in scope) {
	which, args := functionsAll, []any(nil)
	if !in.whole {
		which, args = functionsIn, []any{in.schemas}
	}
	b.Queue(functionsSQL+which, args...).Query(func(rows pgx.Rows) error {
		var f liveFunction
		var acl []string
		_, err := pgx.ForEachRow(rows, []any{&f.schema, &f.name, &f.arguments, &f.owner, &acl, &f.definer, &f.extension}, func() error {
			found := f
			var err error
			found.acl, err = parseACL(acl, "")
			s.functions = append(s.functions, &found)
			s.bySignature[[2]string{f.schema, signature(f.name, f.arguments)}] = &found
			return err
		})
		return err
	})
}

// managedFunction tells whose right to execute is cordon's business. What an
// extension made is open to PUBLIC as the extension says.
func (s *state) managedFunction(f *liveFunction) func(string) bool {
	managed := s.managed(s.schemas[f.schema], f.owner)
	return func(grantee string) bool { return managed(grantee) && !(f.extension && grantee == "") }
}

// function is f in the normal form, and whether it bears the mark.
func (s *state) function(f *liveFunction) (Function, bool) {
	out := Function{Database: s.block, Schema: f.schema, Signature: signature(f.name, f.arguments)}
	out.Grants = grantsOf(f.acl, s.managedFunction(f))
	if s.usurps(s.schemas[f.schema], f.owner) {
		out.Drift = []string{fmt.Sprintf("owned by %q", f.owner)}
	}
	return out, len(out.Grants) > 0 || len(out.Drift) > 0
}

// target is the function as GRANT and ALTER name it.
func (f *liveFunction) target() string {
	return "ROUTINE " + quote(f.schema, f.name) + "(" + f.arguments + ")"
}

func (f Function) live(s *state) *liveFunction {
	return s.bySignature[[2]string{f.Schema, f.Signature}]
}

func (f Function) block() string   { return f.Database }
func (f Function) scope() scope    { return scope{schemas: []string{f.Schema}} }
func (f Function) settled() object { f.Drift = nil; return f }

func (f Function) find(s *state) object {
	if l := f.live(s); l != nil {
		if live, ok := s.function(l); ok {
			return live
		}
	}
	return nil
}

// make takes the function first from a project's role that owns it. It must
// not run with the rights of its next owner, whoever wrote it.
func (f Function) make(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	l := f.live(s)
	if l == nil {
		return nil, errGone("function")
	}
	name := l.target()
	if s.usurps(s.schemas[l.schema], l.owner) {
		var out []statement
		if l.definer {
			out = append(out, statement{sql: "ALTER " + name + " SECURITY INVOKER"})
		}
		return append(out, statement{sql: "ALTER " + name + " OWNER TO " + s.heir(l.schema)}), nil
	}
	revokes, grants := alterACL(name, l.owner, l.acl, s.managedFunction(l), f.Grants)
	return append(revokes, grants...), nil
}

func (f Function) unmake(ctx context.Context, tx pgx.Tx, s *state) ([]statement, error) {
	if f.live(s) == nil {
		return nil, nil
	}
	return Function{Database: f.Database, Schema: f.Schema, Signature: f.Signature}.make(ctx, tx, s)
}

// heir is who gets what a project's role owned: the owner of the schema, if
// that is someone else, or cordon's role.
func (s *state) heir(schema string) string {
	if n := s.schemas[schema]; n != nil && !s.bound(n.owner) {
		return quote(n.owner)
	}
	return "CURRENT_USER"
}
