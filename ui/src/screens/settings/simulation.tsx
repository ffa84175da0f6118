// What a change of rules gives to users and takes from them, asked for before it is made.
import {useEffect, useRef, useState} from 'preact/hooks';
import {request} from '../../api.ts';
import {reasonOf} from '../../changes.ts';
import {applicationPath} from '../../url.ts';
import {href} from '../../router.ts';
import {actionWords} from './rule_words.ts';

interface Subject {
    teams: string[];
    isReadOnly: boolean;
    userCount: number;
    users: string[];
    gained: number;
    lost: number;
}
interface Difference {
    users: string[];
    userCount: number;
    runtime: string;
    namespace: string;
    name: string;
    gained: string[];
    lost: string[];
}
interface Answer {
    gained: number;
    lost: number;
    examined: number;
    isComplete: boolean;
    subjects: Subject[];
    total: number;
    differences: Difference[];
}

const pageSize = 20;
const query = `query Simulate($change: AccessRuleChange!, $first: Int, $skip: Int) {
  simulateAccessRules(change: $change, first: $first, skip: $skip) {
    gained lost examined isComplete subjects { teams isReadOnly userCount users gained lost }
    total differences { users userCount runtime namespace name gained lost }
  }
}`;

function names(users: string[], count: number): string {
    return `${users.slice(0, 5).join(', ')}${count > 5 ? ` and ${count - 5} more` : ''}`;
}

function Subjects({subjects}: {subjects: Subject[]}) {
    return (
        <div class="table-frame">
            <table class="listing" aria-label="Users who gain or lose something">
                <thead><tr><th scope="col">Users</th><th scope="col">Teams</th><th scope="col">Gain in</th><th scope="col">Lose in</th></tr></thead>
                <tbody>
                    {subjects.map((one, index) => (
                        <tr key={index} data-row>
                            <td data-name="Users"><span class="breaks">{names(one.users, one.userCount)}{one.isReadOnly && <span class="quiet"> reads only</span>}</span></td>
                            <td data-name="Teams"><span class="breaks">{one.teams.join(', ') || 'none'}</span></td>
                            <td data-name="Gain in">{one.gained}</td>
                            <td data-name="Lose in">{one.lost}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

function Differences({answer, skip, onSkip}: {answer: Answer; skip: number; onSkip: (skip: number) => void}) {
    const last = skip + answer.differences.length;
    return (
        <>
            <div class="table-frame below">
                <table class="listing" aria-label="Applications">
                    <thead><tr><th scope="col">Application</th><th scope="col">Users</th><th scope="col">May then</th><th scope="col">May no longer</th></tr></thead>
                    <tbody>
                        {answer.differences.map((one, index) => (
                            <tr key={index} data-row>
                                <td data-name="Application"><span class="breaks"><a href={href(applicationPath(one.runtime, one.namespace, one.name))}>{one.name}</a><span class="quiet block">{one.runtime} / {one.namespace}</span></span></td>
                                <td data-name="Users"><span class="breaks">{names(one.users, one.userCount)}</span></td>
                                <td data-name="May then">{actionWords(one.gained)}</td>
                                <td data-name="May no longer">{actionWords(one.lost)}</td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
            {answer.total > pageSize && (
                <p class="twice below">
                    <button type="button" disabled={skip === 0} onClick={() => onSkip(Math.max(0, skip - pageSize))}>Earlier</button>
                    <span role="status">{answer.differences.length ? skip + 1 : skip} to {last} of {answer.total}</span>
                    <button type="button" disabled={last >= answer.total} onClick={() => onSkip(skip + pageSize)}>Later</button>
                </p>
            )}
        </>
    );
}

export function Simulation({change, name, run, onClose}: {change: object; name: string; run: () => Promise<void>; onClose: () => void}) {
    const [answer, setAnswer] = useState<Answer | null>(null);
    const [problem, setProblem] = useState('');
    const [skip, setSkip] = useState(0);
    const [isRunning, setRunning] = useState(false);
    const head = useRef<HTMLHeadingElement>(null);
    useEffect(() => head.current?.focus(), [change]);
    useEffect(() => {
        const cancel = new AbortController();
        setProblem('');
        request<{simulateAccessRules: Answer}>(query, {change, first: pageSize, skip}, cancel.signal).then(
            ({data}) => setAnswer(data.simulateAccessRules),
            (error) => cancel.signal.aborted || setProblem(reasonOf(error)),
        );
        return () => cancel.abort('cancelled');
    }, [change, skip]);
    const onRun = () => {
        setRunning(true);
        void run().finally(() => setRunning(false));
    };
    return (
        <section class="panel below" aria-labelledby="simulation" aria-busy={!answer && !problem}>
            <h3 id="simulation" tabIndex={-1} ref={head}>What changes</h3>
            {problem && <p class="invalid" role="alert">It cannot be shown: {problem}</p>}
            {!answer && !problem && <p role="status">Comparing what users may do now and then…</p>}
            {answer && (
                <>
                    <p role="status">
                        {answer.total ? <>Users gain something in <b>{answer.gained}</b> and lose something in <b>{answer.lost}</b> cases of a user and an application.</> : 'Of the applications that there are now, no user gains or loses any.'}
                        {!answer.isComplete && ` Only ${answer.examined} applications were compared; the account has more.`}
                    </p>
                    {answer.total > 0 && <Subjects subjects={answer.subjects} />}
                    {answer.total > 0 && <Differences answer={answer} skip={skip} onSkip={setSkip} />}
                </>
            )}
            <p class="twice below"><button type="button" class="primary" disabled={isRunning} onClick={onRun}>{name}</button><button type="button" class="plain" onClick={onClose}>Keep it as it is</button></p>
        </section>
    );
}
