module github.com/gabion-go/gabion/contrib/gabionmsg

go 1.26.0

replace (
	github.com/gabion-go/gabion => ../..
	github.com/gabion-go/gabion/messages => ../../messages
)

require (
	github.com/ThreeDotsLabs/watermill v1.5.1
	github.com/gabion-go/gabion v0.0.0
	github.com/gabion-go/gabion/messages v0.0.0
	github.com/sony/gobreaker v1.0.0
)

require (
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/lithammer/shortuuid/v3 v3.0.7 // indirect
	github.com/oklog/ulid v1.3.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
)
