project "shop" {
  directory = "/srv/projects/shop"
  user      = "shop" # whom its sessions are on the host: never root
  sandboxes = [sandbox.claude-code, sandbox.terminal]
  operators = ["group:shop"] # who may start them

  git {
    remote     = "https://gitea.${var.domain}/acme/shop.git" # all that .git/config may hold
    credential = secret.gitea                                # added on the way, never stored nor seen by a session
    push       = ["refs/heads/agent/*"]                      # what sessions may push to; all else they only fetch
  }

  schema {
    database     = database.main
    owner_column = "user_id"

    # What is not named here: nothing for the anonymous, own rows for the logged-in.
    table "products" { anonymous = ["select"] }
    table "orders" { authenticated = ["select", "insert"] }
    table "audit_log" { authenticated = [] }
  }

  dev_server {
    sandbox = sandbox.dev-server
    command = ["npm", "run", "dev"]
    user    = "dev-shop" # a system user and group of its own
    port    = 5173
  }

  preview {
    image     = "nginx:alpine"
    directory = "dist"
    port      = 8173
  }
}
