// Package mesh reads what gabion export writes with the projects' own types, which refuse what they do
// not know.
package mesh
