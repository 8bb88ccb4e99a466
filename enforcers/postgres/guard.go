package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aicodesit/cordon/internal/owner"
	"github.com/aicodesit/cordon/reconciler"
	"github.com/aicodesit/cordon/specs"
)

// Guard is the event trigger that closes a table of a marked schema, and
// takes a function from PUBLIC, in the transaction that makes it, and the two
// that tell cordon of changes. Their functions lie in a schema of its own, of
// the trigger's name.
type Guard struct {
	Database string   `json:"-"`
	Code     string   `json:"code"`    // digest of the function
	Trigger  string   `json:"trigger"` // always: also under session_replication_role = replica
	Commands []string `json:"commands"`
	Tells    string   `json:"tells"` // digest of what tells cordon of changes, and for which events
	Drift    []string `json:"drift,omitempty"`
}

// guardCommands are those that make tables and functions or bring them in.
var guardCommands = [...]string{
	"ALTER AGGREGATE", "ALTER FUNCTION", "ALTER PROCEDURE", "ALTER ROUTINE", "ALTER TABLE",
	"CREATE AGGREGATE", "CREATE FUNCTION", "CREATE PROCEDURE", "CREATE SCHEMA", "CREATE TABLE", "CREATE TABLE AS", "SELECT INTO",
}

// guardCode runs with its owner's rights, for the maker of a table need not be
// its owner. An altered table that has cordon's policies was closed before:
// a migration may lift FORCE from it.
const guardCode = `
DECLARE
  o record;
BEGIN
  FOR o IN
    SELECT d.classid, d.command_tag, d.objid, n.nspname, c.relname
    FROM pg_event_trigger_ddl_commands() d
    LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind IN ('r', 'p')
                        AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
    LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
                       AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a WHERE a.grantee = 0)
    JOIN pg_namespace n ON n.oid = coalesce(c.relnamespace, p.pronamespace)
    JOIN pg_description m ON m.objoid = n.oid AND m.classoid = 'pg_namespace'::regclass AND m.objsubid = 0
    WHERE m.description LIKE 'cordon:postgres.schema.%' AND NOT d.in_extension
      AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = d.classid AND e.objid = d.objid AND e.deptype = 'e')
      AND NOT (d.command_tag = 'ALTER TABLE'
               AND EXISTS (SELECT FROM pg_policy q WHERE q.polrelid = d.objid AND q.polname LIKE 'cordon\_%'))
  LOOP
    IF o.relname IS NULL THEN
      EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', o.objid::regprocedure);
    ELSE
      EXECUTE format('ALTER TABLE %I.%I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', o.nspname, o.relname);
    END IF;
  END LOOP;
END
`

// Addr is postgres.guard.DATABASE.
func (g Guard) Addr() reconciler.Addr { return reconciler.NewAddr(Name, "guard", g.Database) }

// Needs returns nothing: the guard sees what bears a mark at the time.
func (g Guard) Needs() []reconciler.Addr { return nil }

func guard(block string) Guard {
	return Guard{Database: block, Code: codeDigest(guardCode, true, []string{"search_path=pg_catalog, pg_temp"}), Trigger: "always", Commands: guardCommands[:], Tells: wantedTells()}
}

func codeDigest(source string, definer bool, settings []string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %v %q", source, definer, settings))
	return hex.EncodeToString(sum[:6])
}

// guards are wanted where there are projects, if cordon may make an event
// trigger or one is there.
func guards(set specs.Set) []reconciler.Resource {
	var out []reconciler.Resource
	for _, s := range set.Servers {
		if (s.Superuser || s.Guarded) && hasSchema(set, s.Database) {
			out = append(out, guard(s.Database))
		}
	}
	return out
}

func hasSchema(set specs.Set, database string) bool {
	return slices.ContainsFunc(set.Projects, func(p specs.Project) bool { return p.Schema != nil && p.Schema.Database == database })
}

func guardNotes(set specs.Set) []reconciler.Note {
	var out []reconciler.Note
	for _, s := range set.Servers {
		if !s.Superuser && !s.Guarded && hasSchema(set, s.Database) {
			out = append(out, reconciler.Note{
				Addr: Guard{Database: s.Database}.Addr(),
				Text: fmt.Sprintf("a new table is closed by the next apply, not at once: that takes an event trigger, which only a superuser can make, and cordon connects as %q", s.User),
			})
		}
	}
	return out
}

const guardPrefix = "cordon_guard_"

// guardName is what the event trigger and its schema are called.
func guardName(block string) string {
	name := guardPrefix + block
	if len(name) <= specs.MaxRole {
		return name
	}
	return name[:40] + "_" + codeDigest(block, false, nil)
}

// liveGuard is what there is of a guard. "" and nil where it is not there.
type liveGuard struct {
	schema, trigger bool // they are there
	marks           []string
	enabled, source string
	tags, settings  []string
	definer         bool
	tells           struct {
		source             string
		definer            bool
		settings, triggers []string
	}
	trusted bool // schema, function and trigger are a superuser's, and no one else has a privilege
}

const guardSQL = `
SELECT n.oid IS NOT NULL, e.oid IS NOT NULL,
       ARRAY[coalesce(obj_description(n.oid, 'pg_namespace'), ''), coalesce(obj_description(e.oid, 'pg_event_trigger'), '')],
       coalesce(e.evtenabled::text, ''), coalesce(e.evttags, '{}'), coalesce(p.prosrc, ''), coalesce(p.prosecdef, false), coalesce(p.proconfig, '{}'),
       coalesce(po.rolsuper AND no.rolsuper AND eo.rolsuper AND e.evtevent = 'ddl_command_end' AND e.evtfoid = p.oid AND n.nspacl IS NULL AND p.proacl IS NOT NULL
                AND NOT EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee <> p.proowner), false),
       ` + tellsColumns + `
FROM (SELECT $1::name AS name) x
LEFT JOIN pg_namespace n ON n.nspname = x.name LEFT JOIN pg_roles no ON no.oid = n.nspowner
LEFT JOIN pg_proc p ON p.pronamespace = n.oid AND p.proname = 'close' AND p.pronargs = 0 LEFT JOIN pg_roles po ON po.oid = p.proowner
LEFT JOIN pg_event_trigger e ON e.evtname = x.name LEFT JOIN pg_roles eo ON eo.oid = e.evtowner
` + tellsJoin

func (s *state) queueGuard(b *pgx.Batch) {
	b.Queue(guardSQL, guardName(s.block)).QueryRow(func(row pgx.Row) error {
		g := &s.guard
		return row.Scan(&g.schema, &g.trigger, &g.marks, &g.enabled, &g.tags, &g.source, &g.definer, &g.settings, &g.trusted,
			&g.tells.source, &g.tells.definer, &g.tells.settings, &g.tells.triggers)
	})
}

func (s *state) guardMark() string { return owner.Mark(string(Guard{Database: s.block}.Addr())) }

// liveGuard is the guard in the normal form, and whether it bears the mark.
func (s *state) liveGuard() (Guard, bool) {
	l := s.guard
	if !slices.Contains(l.marks, s.guardMark()) {
		return Guard{}, false
	}
	g := Guard{Database: s.block, Commands: slices.Sorted(slices.Values(l.tags)), Code: codeDigest(l.source, l.definer, l.settings)}
	g.Trigger = map[string]string{"A": "always", "O": "origin", "R": "replica", "D": "disabled"}[l.enabled]
	g.Tells = tells(l.tells.source, l.tells.definer, l.tells.settings, l.tells.triggers)
	if !l.trusted {
		g.Drift = append(g.Drift, "others than a superuser may use or change it")
	}
	for _, m := range l.marks {
		if m != s.guardMark() {
			g.Drift = append(g.Drift, "a part is not marked")
		}
	}
	return g, true
}

func (g Guard) block() string   { return g.Database }
func (g Guard) scope() scope    { return scope{} }
func (g Guard) settled() object { g.Drift = nil; return g }

func (g Guard) find(s *state) object {
	if live, ok := s.liveGuard(); ok {
		return live
	}
	return nil
}

// make replaces what there is: within the transaction no table is made
// without it.
func (g Guard) make(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	name := guardName(s.block)
	if _, ours := s.liveGuard(); !ours && (s.guard.schema || s.guard.trigger) {
		return nil, fmt.Errorf("there is a schema or an event trigger %q that is not cordon's: rename it", name)
	}
	mark := literal(s.guardMark())
	function := quote(name, "close") + "()"
	out := append(s.dropGuard(),
		statement{sql: "CREATE SCHEMA " + quote(name)},
		statement{sql: "COMMENT ON SCHEMA " + quote(name) + " IS " + mark},
		statement{sql: "CREATE FUNCTION " + function + " RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS " + literal(guardCode)},
		statement{sql: "REVOKE ALL ON FUNCTION " + function + " FROM PUBLIC"},
		statement{sql: "CREATE EVENT TRIGGER " + quote(name) + " ON ddl_command_end WHEN TAG IN ('" + strings.Join(g.Commands, "', '") + "') EXECUTE FUNCTION " + function},
		statement{sql: "ALTER EVENT TRIGGER " + quote(name) + " ENABLE ALWAYS"},
		statement{sql: "COMMENT ON EVENT TRIGGER " + quote(name) + " IS " + mark},
	)
	return append(out, makeTells(s.block)...), nil
}

func (s *state) dropGuard() []statement {
	name := quote(guardName(s.block))
	return []statement{{sql: "DROP EVENT TRIGGER IF EXISTS " + name}, {sql: "DROP SCHEMA IF EXISTS " + name + " CASCADE"}}
}

func (g Guard) unmake(_ context.Context, _ pgx.Tx, s *state) ([]statement, error) {
	return s.dropGuard(), nil
}
