// Package loop keeps a host at what its files say: it looks again and again,
// at once when something may have changed, and repairs what differs.
package loop
