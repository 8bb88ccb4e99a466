database "main" {
  connection = secret.postgres
}

gateway "data" {
  listen   = "127.0.0.1:54321"
  database = database.main
  keys     = secret.jwt # signs and checks the anon key, the service key and users' tokens

  console { # SQL typed by people
    deny      = ["copy", "grant", "revoke", "system_catalogs", "other_schemas"]
    timeout   = "10s"
    row_limit = 1000
  }
}
