// Package proxy is the reverse proxy between sessions and the models they
// may use: a session holds a token that is worth nothing elsewhere, the
// proxy holds the credential.
//
// Mechanism: an HTTP/1.1 server on the proxy's port, reachable from the slots
// of the networks that allow it. A request is let through when
//
//   - it comes from the address of a slot that a living session has;
//   - it is framed in one way only (internal/stricthttp) and its method and
//     escaped path are, byte for byte, among those declared;
//   - it carries that session's token, in one place or in two that agree;
//   - the session's rate, concurrency and memory allow it;
//   - its body asks for nothing that the policy refuses (internal/strictjson:
//     no two readers of it see different values);
//   - the budgets can bear the most that it may cost. That is reserved before
//     it is sent and settled from what the answer says was used.
//
// What goes on is a new request: the headers that are known to be harmless,
// the body byte for byte, and the credential, as its file was 10 ms ago at most.
// Answers come back through a buffer of fixed size, streams as they come, each
// read flushed; usage is read from a copy on the way by. A redirect is never
// followed nor handed on. The upstream is spoken to in HTTP/1.1: there the
// window of a slow reader is the socket's, in HTTP/2 it is megabytes for each
// stream. A request is served by one goroutine from its first byte to its
// last, on both sides (stricthttp.Server, internal/leanhttp): handing it on
// costs more than all else that is done to it.
//
// Git's requests (below /git/, see gitgate) are let in by the slot alone, for
// as long as the session has a valid token: what git could show, it would have
// to be given in the open.
//
// Mark: token.json in a session's directory of the run directory, which holds
// the token's hash; and the budgets' file in the state directory.
//
// Privilege: none but to read those, and the secrets. Who may also read which
// files the sessions' processes have open (CAP_SYS_PTRACE) need not look at a
// session for each request, see [Live].
//
// Limits. Tokens used are known from the upstream's own count. Until that
// comes the bound is the length of the body for input (a PDF is taken for
// 300,000 tokens at most, which a very long one exceeds) and max_tokens for
// output. A stream that is dropped before its count is charged by what came
// through and how long it took, at most what was reserved. A killed cordon
// forgets at most the last second, and what it audited in the last 10 ms.
// Long-context and priority surcharges are
// not in the price table. That root mounts something over a session's directory
// is seen within 30 s.
package proxy
