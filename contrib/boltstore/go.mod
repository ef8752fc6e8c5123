module github.com/gabion-go/gabion/contrib/boltstore

go 1.26.0

replace github.com/gabion-go/gabion => ../..

require (
	github.com/gabion-go/gabion v0.0.0
	go.etcd.io/bbolt v1.5.0
)

require golang.org/x/sys v0.45.0 // indirect
