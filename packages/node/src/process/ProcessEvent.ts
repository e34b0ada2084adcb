/** Events that `Supervised` publishes on `ResilienceEvents`. They have no output and no arguments of the process. */
import { Metric } from "effect"
import type { EventDefinition } from "@outlast/resilience"

interface OfProcess {
  /** Unix time in milliseconds. */
  readonly at: number
  readonly name: string
}

export interface ProcessReady extends OfProcess {
  readonly _tag: "ProcessReady"
  /** Milliseconds from its start to the end of the handshake. */
  readonly took: number
}

export interface ProcessDied extends OfProcess {
  readonly _tag: "ProcessDied"
  /** How it ended, for example `exit code 3`. */
  readonly death: string
  /** Milliseconds until the next start. */
  readonly delay: number
}

export interface ProcessCircuitOpened extends OfProcess {
  readonly _tag: "ProcessCircuitOpened"
  readonly death: string
  /** Milliseconds until the next start. */
  readonly delay: number
}

export type ProcessEvent = ProcessReady | ProcessDied | ProcessCircuitOpened

const deaths = Metric.counter("outlast_process_deaths_total", {
  description: "Ends of supervised processes that were not asked for",
  incremental: true
})

const seconds = (millis: number): string => `${(millis / 1_000).toFixed(1)} s`
const names = { process: ({ name }: OfProcess) => name }

/** When each event is published, its line and its metrics. */
export const definitions: EventDefinition.EventDefinitions<ProcessEvent> = {
  ProcessReady: {
    doc: "A supervised process has started, and its handshake is done.",
    line: ({ name, took }) => ({ level: "Info", text: `Process ${name} is ready after ${seconds(took)}.` }),
    metrics: []
  },
  ProcessDied: {
    doc: "A supervised process has died and is started again after the backoff.",
    line: ({ name, death, delay }) => ({
      level: "Warn",
      text: `Process ${name} died: ${death}. It is started again in ${seconds(delay)}.`
    }),
    metrics: [{ metric: deaths, names }]
  },
  ProcessCircuitOpened: {
    doc: "A supervised process died too often. It is not started for a while.",
    line: ({ name, death, delay }) => ({
      level: "Error",
      text: `Process ${name} keeps dying: ${death}. It is not started for ${seconds(delay)}.`
    }),
    metrics: [{ metric: deaths, names }]
  }
}
