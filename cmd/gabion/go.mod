module github.com/gabion-go/gabion/cmd/gabion

go 1.26.0

require (
	github.com/gabion-go/gabion v0.0.0
	github.com/gabion-go/gabion/contrib/boltstore v0.0.0
	github.com/hashicorp/go-retryablehttp v0.7.8
	golang.org/x/term v0.47.0
)

require go.etcd.io/bbolt v1.5.0 // indirect

require (
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	go.yaml.in/yaml/v4 v4.0.0
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.14.0 // indirect
)

replace (
	github.com/gabion-go/gabion => ../..
	github.com/gabion-go/gabion/contrib/boltstore => ../../contrib/boltstore
)
