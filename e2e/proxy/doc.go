// Package proxy holds the command gabion proxy to what docs/proxy.md says of it, with real
// processes, real clients and witnesses of their own: kills, reloads under load, smuggled
// requests, servers that misbehave, and the mistakes that other proxies made.
package proxy
