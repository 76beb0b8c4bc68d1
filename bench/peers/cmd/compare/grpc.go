package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const grpcMethod = "/bench.Echo/Echo"

// grpcService echoes its argument, without entities.
var grpcService = grpc.ServiceDesc{
	ServiceName: "bench.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			return in, decode(in)
		},
	}},
}

func hostGRPC(context.Context, setup, int) (string, io.Closer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := grpc.NewServer()
	server.RegisterService(&grpcService, struct{}{})
	go func() { // ends with the server
		if err := server.Serve(l); err != nil {
			fmt.Fprintln(os.Stderr, "grpc:", err)
		}
	}()
	return l.Addr().String(), closing(server.Stop), nil
}

type grpcCaller struct {
	none
	ctx  context.Context
	conn *grpc.ClientConn
}

func dialGRPC(ctx context.Context, s setup, _ int) (entities, error) {
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &grpcCaller{ctx: ctx, conn: conn}, nil
}

func (g *grpcCaller) echo(_, _ int, payload []byte) error {
	out := new(wrapperspb.BytesValue)
	err := g.conn.Invoke(g.ctx, grpcMethod, wrapperspb.Bytes(payload), out)
	return sameLength(out.GetValue(), payload, err)
}

func (g *grpcCaller) Close() error { return g.conn.Close() }
