module github.com/gabion-go/gabion/e2e/grpc

go 1.26.0

replace (
	github.com/gabion-go/gabion => ../..
	github.com/gabion-go/gabion/contrib/gabiongrpc => ../../contrib/gabiongrpc
	github.com/gabion-go/gabion/contrib/grpcidem => ../../contrib/grpcidem
	github.com/gabion-go/gabion/contrib/sqlitestore => ../../contrib/sqlitestore
)

require (
	connectrpc.com/connect v1.21.1
	github.com/gabion-go/gabion v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/gabiongrpc v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/grpcidem v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/contrib/sqlitestore v0.0.0-00010101000000-000000000000
	google.golang.org/grpc v1.85.0
)

require (
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	modernc.org/libc v1.77.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.12.1 // indirect
	modernc.org/sqlite v1.60.1 // indirect
)
