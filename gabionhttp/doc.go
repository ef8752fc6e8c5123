// Package gabionhttp brings gabion to net/http. [Transport] sends requests through
// a dependency's policy, under any client or SDK; [Deadline] and [Error] are the
// other side of it, in servers. docs/http.md tells what is retried and what is not.
package gabionhttp
