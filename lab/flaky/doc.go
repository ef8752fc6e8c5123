// Package flaky is a server that fails by plan: the service of a lab's scenario, on a real
// socket and in real time.
//
//	plan, err := flaky.Load("provider.yaml")
//	server, err := flaky.New(plan, flaky.Options{Seed: 1})
//	defer server.Close()
//	url := httptest.NewServer(server).URL
//
// What fails, when, for whom and for how long is decided by the code of the lab. The same
// plan and seed make the same requests fail in both. A request is known by its idempotency
// key, and one without by how many such came before it.
package flaky
