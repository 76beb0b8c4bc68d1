// Package otlp tests the traces of shardotel with the OTLP receiver of the OpenTelemetry Collector.
// It is a module of its own, so that other modules do not depend on the Collector.
package otlp
