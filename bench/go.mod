module github.com/shardgen/shardgen/bench

go 1.26.0

tool github.com/nats-io/nats-server/v2

replace github.com/shardgen/shardgen => ..

replace github.com/shardgen/shardgen/shardotel => ../shardotel

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/nats-io/nats.go v1.55.0
	github.com/shardgen/shardgen v0.0.0-00010101000000-000000000000
	golang.org/x/sys v0.49.0
)

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nats-server/v2 v2.15.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/time v0.16.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
