package postgres

import (
	"fmt"
	"slices"
	"strings"
)

// channel is what a database tells on that its access may have changed, see
// [Enforcer.Watch].
const channel = "cordon"

// tellCode tells of every change of what is not temporary. A transaction that
// it tells of can't be prepared (PREPARE TRANSACTION), as any with NOTIFY.
const tellCode = `
BEGIN
  IF TG_EVENT = 'sql_drop' THEN
    PERFORM pg_notify('` + channel + `', '')
    WHERE EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary);
  ELSE
    PERFORM pg_notify('` + channel + `', '')
    WHERE EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name IS DISTINCT FROM 'pg_temp'
                  AND command_tag NOT IN ('CREATE INDEX', 'REINDEX', 'REFRESH MATERIALIZED VIEW'));
  END IF;
END
`

// tellEvents are what the guard's second function is called for, by the
// beginning of its triggers' names.
var tellEvents = [...][2]string{{"cordon_tell_", "ddl_command_end"}, {"cordon_drop_", "sql_drop"}}

// tells is the second function with its triggers, in the normal form.
func tells(source string, definer bool, settings, triggers []string) string {
	if source == "" && len(triggers) == 0 {
		return ""
	}
	return codeDigest(source, definer, settings) + " " + strings.Join(triggers, ", ")
}

func wantedTells() string {
	var triggers []string
	for _, e := range tellEvents {
		triggers = append(triggers, e[1]+" always")
	}
	slices.Sort(triggers)
	return tells(tellCode, true, []string{"search_path=pg_catalog, pg_temp"}, triggers)
}

// makeTells makes it in the guard's schema, with which it goes.
func makeTells(block string) []statement {
	name := guardName(block)
	function := quote(name, "tell") + "()"
	out := []statement{
		{sql: "CREATE FUNCTION " + function + " RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS " + literal(tellCode)},
		{sql: "REVOKE ALL ON FUNCTION " + function + " FROM PUBLIC"},
	}
	for _, e := range tellEvents {
		trigger := quote(e[0] + strings.TrimPrefix(name, guardPrefix))
		out = append(out,
			statement{sql: fmt.Sprintf("CREATE EVENT TRIGGER %s ON %s EXECUTE FUNCTION %s", trigger, e[1], function)},
			statement{sql: "ALTER EVENT TRIGGER " + trigger + " ENABLE ALWAYS"})
	}
	return out
}

// tellsColumns is what [guardSQL] says of it; nothing of a function that
// others may use or change.
const tellsColumns = `coalesce(t.prosrc, ''), coalesce(t.prosecdef, false), coalesce(t.proconfig, '{}'),
       ARRAY(SELECT w.evtevent || CASE w.evtenabled WHEN 'A' THEN ' always' WHEN 'D' THEN ' disabled' ELSE ' at times' END
             FROM pg_event_trigger w JOIN pg_roles wo ON wo.oid = w.evtowner AND wo.rolsuper WHERE w.evtfoid = t.oid AND w.evttags IS NULL ORDER BY 1)`

const tellsJoin = `LEFT JOIN pg_proc t ON t.pronamespace = n.oid AND t.proname = 'tell' AND t.pronargs = 0 AND t.proacl IS NOT NULL
                   AND NOT EXISTS (SELECT FROM aclexplode(t.proacl) a WHERE a.grantee <> t.proowner)
                   AND EXISTS (SELECT FROM pg_roles too WHERE too.oid = t.proowner AND too.rolsuper)`
