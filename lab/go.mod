module github.com/gabion-go/gabion/lab

go 1.26.0

replace (
	github.com/gabion-go/gabion => ..
	github.com/gabion-go/gabion/messages => ../messages
)

require (
	github.com/gabion-go/gabion v0.0.0
	github.com/gabion-go/gabion/messages v0.0.0
)

require go.yaml.in/yaml/v4 v4.0.0 // indirect
