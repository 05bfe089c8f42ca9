// Command apps runs real applications on Godwit, each with brokers of its own, while it kills, pauses and restarts both
// sides, and checks from outside what came of it: which records were processed, written or counted, by exact sets.
//
// Every application is a function of (context, *world) that returns one line about what was seen, or an error. The world has
// the places where things are installed, a random source from the seed of the run, and owns all processes: whatever an
// application leaves running is killed when it returns. Output of every process is in its own file in the application's
// folder, which a failure names.
//
// apps.sh installs what is needed and calls this program; see ../README.md.
package main
