# Secrets and sensitive variables where they would be shown.
secret "gitea" { file = "/etc/gitea" }

variable "token" {
  default   = "hunter2"
  sensitive = true
}

locals {
  alias = secret.gitea # a reference is not the secret
  text  = "x-${secret.gitea}"                  # ERROR: secret.gitea would be shown. A secret is read at the moment of use
  json  = jsonencode({ token = secret.gitea }) # marked, found where it is used
  list  = [var.token]
}

secret "from" { file = "/etc/${var.token}" } # allowed: where a secret is found is not shown

environment "e" {
  set = {
    A = secret.gitea         # ERROR: secret.gitea would be shown
    B = local.alias          # ERROR: secret.gitea would be shown
    C = var.token            # ERROR: var.token would be shown. The variable is sensitive
    D = "Bearer ${var.token}" # ERROR: var.token would be shown
    E = local.json           # ERROR: secret.gitea would be shown
  }
  allow = local.list # ERROR: var.token would be shown
}

sandbox "s" {
  command = ["x", secret.gitea] # ERROR: secret.gitea would be shown
}

sandbox "t" {
  command = ["x", "${session.id}${var.token}"] # ERROR: var.token would be shown
  grace   = var.token                          # ERROR: var.token would be shown
}

network "n" {
  pool = "10.1.0.0/16"
  warm = var.token == "x" ? 1 : 2 # ERROR: var.token would be shown
}

project "p" {
  name      = local.alias # ERROR: secret.gitea would be shown
  directory = "/srv/p"

  git {
    remote     = "https://x:${secret.gitea}@git.example.com/p.git" # ERROR: secret.gitea would be shown
    credential = local.alias
  }
}

project "q" {
  for_each  = toset(local.list) # ERROR: var.token would be shown
  directory = "/srv/q"
}

proxy "p" {
  port     = 3000
  upstream = "https://api.example.com"
  inject   = { x-api-key = var.token } # ERROR: A reference is required, written secret.NAME; this is a string.
}
