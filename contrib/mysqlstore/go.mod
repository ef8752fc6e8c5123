module github.com/gabion-go/gabion/contrib/mysqlstore

go 1.26.0

replace github.com/gabion-go/gabion => ../..

require (
	github.com/gabion-go/gabion v0.0.0
	github.com/go-sql-driver/mysql v1.10.1
)

require filippo.io/edwards25519 v1.2.0 // indirect
