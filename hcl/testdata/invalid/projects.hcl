# Rules about projects and their share of a database.
secret "db" { env = "DB" }
database "main" { connection = secret.db }
sandbox "s" {}

project "a" {
  directory = "/srv/a"
  sandboxes = [sandbox.s, sandbox.s] # ERROR: project "a" lists sandbox "s" twice
  user      = "a b"                  # ERROR: "a b" is not the name of a user
}

project "same" {
  directory = "/srv/a" # ERROR: projects "a" and "same" have one directory
}

project "inside" {
  directory = "/srv/a/b" # ERROR: the directory of project "inside" lies in that of project "a"
}

project "beside" { directory = "/srv/a-b" }

project "relative" { directory = "srv/x" } # ERROR: "srv/x" is not an absolute, clean path

project "root" { directory = "/" } # ERROR: project "root" has the directory /

project "each" {
  for_each  = { x = "/srv/x", y = "/srv/y" }
  name      = "twin" # ERROR: two projects are called "twin"
  directory = each.value
}

project "pg_x" { # ERROR: "pg_x" can't be the name of a schema. PostgreSQL keeps names that begin with "pg_" for itself.
  directory = "/srv/pg_x"
  schema { database = database.main }
}

project "public" { # ERROR: "public" can't be the name of a schema of its own
  directory = "/srv/public"
  schema { database = database.main }
}

project "none" { # no schema, no error
  directory = "/srv/none"
}

project "a-name-that-has-fifty-six-bytes-in-all-as-one-can-count1" { # ERROR: Its role a-name-that-has-fifty-six-bytes-in-all-as-one-can-count1_service has 64 bytes, of at most 63. The name of a project with a schema may have 55 bytes.
  directory = "/srv/long"
  schema { database = database.main }
}

project "tables" {
  directory = "/srv/tables"

  schema {
    database     = database.main
    owner_column = "a-column-name-that-is-longer-than-what-postgresql-keeps-of-it-all" # ERROR: has 65 bytes. PostgreSQL cuts names at 63 bytes.

    table "a-table-name-that-is-longer-than-what-postgresql-keeps-of-it-alll" {} # ERROR: has 65 bytes
    table "" {} # ERROR: table without a name
    table "t" {}
    table "t" {} # ERROR: duplicate table "t"
  }
}

project "servers" {
  directory = "/srv/servers"

  dev_server {
    sandbox = sandbox.s
    command = [""] # ERROR: the dev server of project "servers" has an empty command
    user    = "dev"
    port    = 5173
  }

  preview {
    image     = "nginx"
    directory = "../other" # ERROR: "../other" does not lie in the project
    port      = 5173       # ERROR: port 5173 of project "servers"'s preview is taken by project "servers"'s dev server
  }
}
