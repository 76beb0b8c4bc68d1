// Package load reads annotated Go packages into a model, and reports all mistakes in
// them at once, each with its position and a stable code.
//
// It works on packages that do not compile yet because they, or their imports, use code not
// generated yet. It never reads earlier output. Only the declarations used for the model must
// type-check: the entities' structs, the signatures of their messages, and the types on the wire.
//
// One packages.Load lists the files; they are parsed and type-checked here, without function
// bodies. A second one gets export data of their imports. Asking packages.Load for types instead
// would compile the packages themselves with the large file of shardgen's last run. Over 200
// entities of ten methods that took 44 s of processor time; this takes 2.7 s, and go list -deps
// -export 1.4 s. An import without export data, because it does not compile yet, is read from
// source.
package load
