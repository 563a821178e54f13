// Starts the page: the theme chosen before, the login, the live stream, the router.
import { render } from 'preact';
import { App } from './app';
import { startLive } from './live';
import { remembered } from './remember';
import { startSession } from './session';
import './style.css';

const theme = remembered('theme');
if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
startLive();
startSession();
render(<App />, document.getElementById('app')!);
