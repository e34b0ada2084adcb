/** The shape of `/api/state`, as far as the page reads it. Sections come from the program: any may be missing. */
import type { Headline } from "./Headline.ts"
import type { OperatorAction } from "./OpsEvent.ts"

export interface State {
  readonly name: string
  readonly version: string
  readonly at: number
  readonly status: string
  readonly headline: Headline
  readonly readiness: {
    readonly isReady: boolean
    readonly reasons: readonly { readonly name: string; readonly reason: string }[]
  }
  readonly actions: readonly { readonly name: string }[]
  readonly operators: readonly OperatorAction[]
  readonly sections: Sections
}

interface Sections {
  readonly activity?: Activity
  readonly targets?: readonly Target[]
  readonly circuits?: readonly Circuit[]
  readonly tasks?: readonly Task[]
  readonly runs?: readonly Task[]
  readonly outbox?: Partial<Backlog> & Unread
  readonly "dead letters"?: { readonly total?: number; readonly newest?: readonly Letter[] } & Unread
  readonly [name: string]: unknown
}

interface Unread {
  readonly error?: string
}

export interface Activity {
  readonly running: readonly Call[]
  readonly recent: readonly Call[]
  readonly circuits: readonly Circuit[]
  readonly alerts: readonly { readonly key: string; readonly failures: number; readonly since: number }[]
  readonly minutes: readonly Minute[]
  readonly histories: readonly History[]
  readonly amplification?: number
  readonly goodput?: number
  readonly costUsd?: number
  readonly notices: readonly {
    readonly at: number
    readonly run?: string
    readonly level: string
    readonly text: string
  }[]
}

export interface Call {
  readonly call: number
  readonly startedAt: number
  readonly endedAt?: number
  readonly outcome: string
  readonly attempts: number
  readonly steps: readonly Step[]
  readonly omitted: number
  readonly message?: string
}

export interface Step {
  readonly at: number
  readonly kind: "attempt" | "wait" | "note"
  readonly text: string
  readonly by?: string
  readonly state: string
  readonly reason?: string
  readonly status?: number
  readonly rule?: string
  readonly until?: number
  readonly elapsed?: number
}

export interface Minute {
  readonly at: number
  readonly attempts: number
  readonly calls: number
  readonly answered: number
  readonly failed: number
  readonly costUsd: number
  readonly streamed: number
  readonly firstTokens: number
}

export interface History {
  readonly target: string
  readonly failingSince?: number
  readonly lastFailure?: { readonly reason: string; readonly status?: number }
  readonly slots: readonly {
    readonly at: number
    readonly answered: number
    readonly repeated: number
    readonly failed: number
  }[]
  readonly outs: readonly { readonly since: number; readonly until?: number }[]
}

export interface Target {
  readonly id: string
  readonly provider: string
  readonly model: string
  readonly key: string
  readonly state: string
  readonly reason: string | null
  readonly message: string | null
  readonly advice?: string | null
  readonly needsPerson?: boolean
  readonly health?: string | null
  readonly until: number | null
  readonly lastSuccessAt: number | null
  readonly cooldowns: readonly { readonly scope: string }[]
}

export interface Circuit {
  readonly circuit: string
  readonly phase: string
  readonly until?: number | null
  readonly lastFailure?: string | null
}

export interface Task {
  readonly id: string
  readonly task?: string
  readonly state: string
  readonly reason?: string | null
  readonly turns?: number
  readonly tools?: number
  readonly limits?: readonly { readonly limit: string; readonly used: number; readonly of: number }[]
  readonly until?: number | null
  readonly startedAt?: number | null
  readonly endedAt?: number | null
  readonly decision?: string | null
  readonly effect?: { readonly key: string; readonly tool: string; readonly params: string }
  readonly calls?: readonly { readonly tool: string; readonly params: string }[]
}

interface Backlog {
  readonly backlog: number
  readonly bytes: number
  readonly oldestAt: number | null
}

export interface Letter {
  readonly number: number
  readonly id: string
  readonly subject: string
  readonly reason: string
  readonly detail: string
  readonly died: string
  readonly state: string
}
