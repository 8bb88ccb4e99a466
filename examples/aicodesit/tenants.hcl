# Many alike: one block.
project "tenant" {
  for_each  = toset(["alpha", "beta"])
  name      = each.key
  directory = "/srv/projects/${each.key}"
  sandboxes = [sandbox.claude-code]

  schema {
    database     = database.main
    owner_column = "user_id"
  }
}
