package specs

// Table is a relation found in a project's schema: a fact.
type Table struct {
	Database string   `json:"database"`
	Schema   string   `json:"schema"`
	Name     string   `json:"name"`
	Kind     string   `json:"kind"` // "table", "partitioned table", "view", "materialized view", "foreign table"
	Columns  []string `json:"columns,omitempty"`
	// Parent is the outermost table of the same schema that this one is a
	// partition or an inheritor of.
	Parent    string   `json:"parent,omitempty"`
	Sequences []string `json:"sequences,omitempty"` // of its serial columns, in the same schema, sorted
	Invoker   bool     `json:"invoker,omitempty"`   // a view with security_invoker

	// Unsafe are ways by which a command on it would reach what is not of its
	// schema, or run code, with rights of others.
	Unsafe []Unsafe `json:"unsafe,omitempty"`

	// Check is the declared condition as the server writes it; if it is none
	// that the server takes, CheckError is why.
	Check      string `json:"check,omitempty"`
	CheckError string `json:"check_error,omitempty"`
}

// Unsafe is what a command (select, insert, update, delete) reaches.
type Unsafe struct {
	Command string `json:"command"`
	Reaches string `json:"reaches"` // a relation, or a function by its signature
}

// Function is a function, procedure or aggregate found in a project's schema,
// of no extension: a fact.
type Function struct {
	Database  string `json:"database"`
	Schema    string `json:"schema"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"` // types of the input arguments: "integer, text"
	Past      string `json:"past,omitempty"`      // whose rights it runs with, if they look past policies
	Unpinned  bool   `json:"unpinned,omitempty"`  // it does, and who executes it sets its search_path
}

// Server is what the connection to a database block is: a fact.
type Server struct {
	Database  string `json:"database"`
	Version   int    `json:"version"`             // server_version_num: 150004
	User      string `json:"user"`                // whom cordon connects as
	Superuser bool   `json:"superuser,omitempty"` // the User is
	Owner     bool   `json:"owner,omitempty"`     // the User may change the database itself
	Guarded   bool   `json:"guarded,omitempty"`   // new tables are closed at once
	Marked    bool   `json:"marked,omitempty"`    // what all may do with the database is cordon's business already
}
