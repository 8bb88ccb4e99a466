// Package daemon is what `cordon daemon` is made of besides the loop: it
// follows a source, runs services, and keeps what must outlast the process.
package daemon
