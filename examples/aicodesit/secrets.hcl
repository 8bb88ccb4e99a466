# Secrets are read at the moment of use. They appear in no plan, log,
# state or error, only as a keyed digest where a change must show.
secret "anthropic" { file = "/etc/cordon/secrets/anthropic" }
secret "postgres" { env = "CORDON_POSTGRES_URL" }
secret "gitea" { file = "/etc/cordon/secrets/gitea" }
secret "jwt" { file = "/etc/cordon/secrets/jwt" }
