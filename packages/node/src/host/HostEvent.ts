/** Events that `Host` publishes on `ResilienceEvents`. They have names of the program and no messages of errors. */
import type { EventDefinition } from "@outlast/resilience"
import type { Phase, Result } from "./ShutdownState.ts"

export interface ShutdownStarted {
  readonly _tag: "ShutdownStarted"
  /** Unix time in milliseconds. */
  readonly at: number
  /** The signal, or the reason given to `Host.shutdown`. */
  readonly reason: string
}

export interface ShutdownStepEnded {
  readonly _tag: "ShutdownStepEnded"
  readonly at: number
  readonly phase: Phase
  readonly name: string
  readonly result: Result
  /** Milliseconds. */
  readonly took: number
}

export interface ShutdownEnded {
  readonly _tag: "ShutdownEnded"
  readonly at: number
  readonly reason: string
  readonly took: number
  /** Number of steps that failed or were left behind. */
  readonly incomplete: number
}

export type HostEvent = ShutdownStarted | ShutdownStepEnded | ShutdownEnded

const seconds = (millis: number): string => `${(millis / 1_000).toFixed(1)} s`

/** When each event is published, and its line. */
export const definitions: EventDefinition.EventDefinitions<HostEvent> = {
  ShutdownStarted: {
    doc: "The program was asked to end. It is not ready from now on.",
    line: ({ reason }) => ({ level: "Info", text: `Shutdown started: ${reason}.` }),
    metrics: []
  },
  ShutdownStepEnded: {
    doc: "A step of the shutdown has ended, has failed, or was left behind at its limit.",
    line: ({ name, phase, result, took }) =>
      result === "blocked"
        ? {
            level: "Error",
            text: `Shutdown: step \`${name}\` of phase \`${phase}\` had not ended after ${seconds(took)} and was left behind.`
          }
        : result === "failed"
          ? {
              level: "Error",
              text: `Shutdown: step \`${name}\` of phase \`${phase}\` failed after ${seconds(took)}.`
            }
          : undefined,
    metrics: []
  },
  ShutdownEnded: {
    doc: "All phases of the shutdown are over.",
    line: ({ incomplete, took }) => ({
      level: "Info",
      text: `Shutdown ended after ${seconds(took)}${incomplete === 0 ? "" : `, ${incomplete} of its steps incomplete`}.`
    }),
    metrics: []
  }
}
