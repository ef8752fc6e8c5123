// Package gabionhttp connects gabion with net/http. [Transport] sends requests under a
// dependency's policy, for any client or SDK. [Admission], [Deadline] and [Error] are for servers.
// docs/http.md says what is retried and what is not.
package gabionhttp
