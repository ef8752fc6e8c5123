// Package library reads the files of libraries, SDKs and servers that call others: resilience4j,
// .NET, Dapr, AWS profiles and nginx.
package library

import "github.com/gabion-go/gabion/internal/foreign"

// Formats returns the formats that are read here.
func Formats() []foreign.Format {
	return []foreign.Format{resilience4j, properties, dotnet, dapr, aws, nginx}
}
