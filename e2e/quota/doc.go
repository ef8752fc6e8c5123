// Package quota measures how much of a provider's quota processes use that share it, and how often they are
// refused: by openai-go, anthropic-sdk-go and net/http, each alone, with golang.org/x/time/rate by hand, and with gabion under it.
//
// The provider is an HTTP server that counts tokens in a bucket with true refill, as the providers of
// models do. It says what is left in each answer, in the words of each API. All processes have more work than the quota allows, of mixed
// sizes, begin at once, and hear nothing of each other. All of it runs in virtual time, over connections in memory.
package quota
