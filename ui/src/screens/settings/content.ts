// What the settings of an account are: users, teams, the rules of who may do what, and enrollment tokens.
import {request} from '../../api.ts';
import {Changes} from '../../changes.ts';
import {Held} from '../../held.ts';

export interface User {
    id: string;
    name: string;
    email: string;
    role: string;
    isService: boolean;
    isDisabled: boolean;
    createdAt: string;
}
export interface Team {
    id: string;
    name: string;
    users: {id: string; name: string}[];
}
export interface Rule {
    id: string;
    effect: string;
    tags: string[];
    teams: string[];
    actions: string[];
    attributes: {name: string; key: string | null; value: string}[];
}
export interface Enrollment {
    id: string;
    name: string;
    namePattern: string;
    usesMax: number;
    uses: number;
    status: string;
    expiresAt: string;
    lastUsedAt: string | null;
    runtimes: string[];
}
export interface Content {
    enrollmentTokens: Enrollment[];
    users: User[];
    teams: Team[];
    abacRules: Rule[];
    defaultAccess: string;
}

export const shown = new Held<{content: Content; errors: {message: string}[]}>();
export const changes = new Changes();

const query = `query Settings {
  users { id name email role isService isDisabled createdAt }
  teams { id name users { id name } }
  abacRules(accountId: "", entityType: gitopsApplications) { id effect tags teams actions attributes { name key value } }
  defaultAccess
  enrollmentTokens { id name namePattern usesMax uses status expiresAt lastUsedAt runtimes }
}`;

export async function load(cancel: AbortSignal): Promise<void> {
    const {data, errors} = await request<Content>(query, {}, cancel);
    data.users.sort((a, b) => a.name.localeCompare(b.name));
    shown.value = {content: data, errors};
}

// null: it failed, and the page says why.
export function change<T>(mutation: string, variables: object): Promise<T | null> {
    return changes.run(async () => (await request<T>(mutation, variables)).data);
}
