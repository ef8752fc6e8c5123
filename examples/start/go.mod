module github.com/gabion-go/gabion/examples/start

go 1.26.0

replace (
	github.com/gabion-go/gabion => ../..
	github.com/gabion-go/gabion/contrib/gabionprom => ../../contrib/gabionprom
	github.com/gabion-go/gabion/lab => ../../lab
)

require (
	github.com/gabion-go/gabion v0.0.0
	github.com/gabion-go/gabion/contrib/gabionprom v0.0.0-00010101000000-000000000000
	github.com/gabion-go/gabion/lab v0.0.0-00010101000000-000000000000
	github.com/prometheus/client_golang v1.25.0
)

require (
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
