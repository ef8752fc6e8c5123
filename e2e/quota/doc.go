// Package quota measures how much of a provider's quota processes use that share it, and how often they are
// refused: by openai-go, anthropic-sdk-go and net/http, each alone, with golang.org/x/time/rate by hand, and with gabion under it.
//
// The provider is a server on loopback that counts tokens in a bucket with true refill, as the providers of
// models do. It says what is left in each answer, in the words of each API. All processes have more work than the quota allows, of mixed
// sizes, and hear nothing of each other.
package quota
