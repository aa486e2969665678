package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// traceIDsConfig is the configuration of the exporter `trace_ids`.
type traceIDsConfig struct {
	// Path of the file, which is made anew at each start.
	Path string `mapstructure:"path"`
}

// Validate refuses a configuration without a file.
func (c *traceIDsConfig) Validate() error {
	if c.Path == "" {
		return errors.New("`path` is empty")
	}
	return nil
}

// traceIDs writes one line per span that it is given: the id of the span's trace. It is called by
// the processor directly: nothing is queued, batched or retried between the two.
type traceIDs struct {
	path string

	mu    sync.Mutex
	file  *os.File
	lines *bufio.Writer
}

func newTraceIDsFactory() exporter.Factory {
	return exporter.NewFactory(
		component.MustNewType("trace_ids"),
		func() component.Config { return &traceIDsConfig{} },
		exporter.WithTraces(newTraceIDs, component.StabilityLevelDevelopment))
}

func newTraceIDs(_ context.Context, _ exporter.Settings, config component.Config) (exporter.Traces, error) {
	return &traceIDs{path: config.(*traceIDsConfig).Path}, nil
}

func (t *traceIDs) Start(context.Context, component.Host) error {
	file, err := os.Create(t.path)
	if err != nil {
		return err
	}
	t.file = file
	t.lines = bufio.NewWriter(file)
	return nil
}

func (t *traceIDs) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{MutatesData: false}
}

func (t *traceIDs) ConsumeTraces(_ context.Context, traces ptrace.Traces) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, resource := range traces.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, span := range scope.Spans().All() {
				if _, err := t.lines.WriteString(span.TraceID().String() + "\n"); err != nil {
					return err
				}
			}
		}
	}
	return t.lines.Flush()
}

func (t *traceIDs) Shutdown(context.Context) error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
